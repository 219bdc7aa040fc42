import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { HindsearchError } from "../../errors.js";
import { parseOptions } from "../../network/options.js";
import type { MetricPoint, MetricSink, SinkRun } from "./metric-sink.js";

/** Options of {@link PrometheusSink}. */
export interface PrometheusSinkOptions {
  /** Port of `/metrics`; 0: any that is free, see {@link PrometheusSink.url}. Default 9464. */
  port?: number | undefined;
  /** Address to listen on. Default 127.0.0.1: this machine alone. There is no access control. */
  host?: string | undefined;
}

/** Schema of {@link PrometheusSinkOptions}. @internal */
export const prometheusShape = {
  port: z.int().min(0).max(65_535).default(9464),
  host: z.string().min(1).default("127.0.0.1"),
};
const Options = z.strictObject(prometheusShape);

/**
 * Shows the latest value of every metric to Prometheus while the run lasts: gauges `hindsearch_<name>`, with the run's name
 * as label `run`, and `hindsearch_step`.
 */
export class PrometheusSink implements MetricSink {
  /** For messages. */
  readonly name = "prometheus";
  readonly #options: z.output<typeof Options>;
  readonly #values = new Map<string, number>();
  #run = "";
  #server: Server | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor(options: PrometheusSinkOptions = {}) {
    this.#options = parseOptions(Options, options, "PrometheusSink");
  }

  /** Where the metrics are while a run lasts. */
  get url(): string | undefined {
    const address = this.#server?.address() as AddressInfo | null | undefined;
    if (!address) return undefined;
    const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
    return `http://${host}:${address.port}/metrics`;
  }

  /** Listens. */
  async start({ name }: SinkRun): Promise<void> {
    this.#run = name;
    this.#values.clear();
    const server = createServer((request, response) => {
      if (request.method !== "GET" || request.url?.split("?", 1)[0] !== "/metrics") {
        response.writeHead(404).end();
        return;
      }
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
      response.end(exposition(this.#values, this.#run));
    });
    // It must not keep a process alive that has nothing else to do.
    server.unref();
    const { port, host } = this.#options;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (cause) =>
        reject(new HindsearchError("IO", `Cannot listen on ${host}:${port}: ${cause.message}.`, { cause })),
      );
      server.listen(port, host, resolve);
    });
    this.#server = server;
  }

  /** Takes the latest values. */
  async write(points: readonly MetricPoint[]): Promise<void> {
    for (const { name, value, step } of points) {
      this.#values.set(metricName(name), value);
      this.#values.set("hindsearch_step", Math.max(step, this.#values.get("hindsearch_step") ?? 0));
    }
  }

  /** Stops listening. */
  async end(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
}

function metricName(name: string): string {
  return `hindsearch_${name.replaceAll(/[^a-zA-Z0-9_]/g, "_")}`;
}

/** Prometheus' text format, version 0.0.4. */
function exposition(values: ReadonlyMap<string, number>, run: string): string {
  const label = run.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
  return [...values]
    .map(([name, value]) => `# TYPE ${name} gauge\n${name}{run="${label}"} ${value}\n`)
    .join("");
}

import { z } from "zod";
import type { AbortOptions } from "../../abort.js";
import { parseOptions } from "../../network/options.js";
import { addressOf, deliverJson, type PostTarget } from "../../network/post-json.js";
import { type HttpSinkOptions, httpSinkShape, sinkTarget } from "./http-target.js";
import type { MetricPoint, MetricSink, SinkRun } from "./metric-sink.js";

/** Options of {@link OpenTelemetrySink}. */
export interface OpenTelemetrySinkOptions extends HttpSinkOptions {
  /** Of the collector. Default `http://127.0.0.1:4318/v1/metrics`. */
  url?: string | undefined;
}

/** Schema of {@link OpenTelemetrySinkOptions}. @internal */
export const openTelemetryShape = {
  ...httpSinkShape,
  url: httpSinkShape.url.default("http://127.0.0.1:4318/v1/metrics"),
};
const Options = z.strictObject(openTelemetryShape);

/**
 * Exports gauges to an OpenTelemetry collector by OTLP over HTTP, as JSON: `hindsearch.<name>`, with the step as
 * attribute `hindsearch.step` of each data point and the run as attributes of the resource. The key is `apiKey`, else
 * `HINDSEARCH_OTLP_API_KEY`.
 */
export class OpenTelemetrySink implements MetricSink {
  /** For messages. */
  readonly name: string;
  readonly #target: PostTarget;
  #run: SinkRun | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor(options: OpenTelemetrySinkOptions = {}) {
    const parsed = parseOptions(Options, options, "OpenTelemetrySink");
    this.name = `OpenTelemetry ${addressOf(parsed.url)}`;
    this.#target = sinkTarget(parsed, "HINDSEARCH_OTLP_API_KEY");
  }

  /** Remembers the run; OTLP has no such call. */
  async start(run: SinkRun): Promise<void> {
    this.#run = run;
  }

  /** Exports points. */
  async write(points: readonly MetricPoint[], { signal }: AbortOptions): Promise<void> {
    const { id, name } = this.#run as SinkRun;
    const request = {
      resourceMetrics: [
        {
          resource: {
            attributes: [
              text("service.name", "hindsearch"),
              text("service.instance.id", id),
              text("hindsearch.run", name),
            ],
          },
          scopeMetrics: [{ scope: { name: "hindsearch" }, metrics: metricsOf(points) }],
        },
      ],
    };
    await deliverJson(this.#target, request, signal ?? new AbortController().signal);
  }

  /** Closes the connection. */
  async end(): Promise<void> {
    await this.#target.dispatcher.destroy();
  }
}

function text(key: string, stringValue: string) {
  return { key, value: { stringValue } };
}

/** One gauge for each name. 64-bit integers are strings in the JSON of protocol buffers. */
function metricsOf(points: readonly MetricPoint[]) {
  const gauges = new Map<string, object[]>();
  for (const { name, value, step, time } of points) {
    const dataPoints = gauges.get(name) ?? [];
    gauges.set(name, dataPoints);
    dataPoints.push({
      attributes: [{ key: "hindsearch.step", value: { intValue: String(step) } }],
      timeUnixNano: String(BigInt(Math.round(time)) * 1_000_000n),
      asDouble: value,
    });
  }
  return [...gauges].map(([name, dataPoints]) => ({
    name: `hindsearch.${name.replaceAll("/", ".").replaceAll(/[^a-zA-Z0-9_.-]/g, "_")}`,
    gauge: { dataPoints },
  }));
}

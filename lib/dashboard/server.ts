import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { type AbortOptions, onAbort, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { parseOptions } from "../network/options.js";
import { Access } from "../retrieval/server/access.js";
import { RefusedRequest } from "../retrieval/server/contracts.js";
import { type PageFiles, readPageFiles } from "./page-files.js";
import { parseRowQuery } from "./row-query.js";
import { compareRuns, RunCollection } from "./run-collection.js";
import type { WatchedRun } from "./watched-run.js";

/** Settings of {@link serveDashboard}. */
export interface DashboardOptions extends AbortOptions {
  /** Address to listen on. Default `127.0.0.1`; others need a token. */
  host?: string | undefined;
  /** Default 7860; 0 takes a free one. */
  port?: number | undefined;
  /**
   * Asked of every request for data, as `Authorization: Bearer`; the page takes it from the address
   * ({@link DashboardServer.address}) or asks for it. Default: the environment variable `HINDSEARCH_SERVER_TOKEN`,
   * else none.
   */
  token?: string | undefined;
  /** Gets what went wrong while serving; the page is told only that it failed. */
  onError?: ((error: unknown) => void) | undefined;
}

const Options = z.strictObject({
  host: z.string().min(1).default("127.0.0.1"),
  port: z.int().min(0).max(65_535).default(7860),
  token: z.string().min(1).optional(),
  onError: z.custom<(error: unknown) => void>((value) => typeof value === "function").optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/** Sent with everything. Nothing from elsewhere is loaded, no script stands in the page, no text becomes HTML. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

/**
 * Serves the dashboard over run folders: overview and comparison, live curves, the verdict on the training signal, and
 * every trajectory. Runs that appear later are found. Folders are only read.
 *
 * Text in trajectories is hostile: the page never makes HTML of it, and its content-security policy allows no script but
 * its own and no address but this server. A request under another host's name is refused, and none may come from another
 * site. There are no routes that write.
 *
 * @param folders - Each is a run folder or holds some, up to four levels down.
 * @param options - Address; `signal` closes the server.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong options or an open address without token, `IO` if a folder
 * cannot be read or the port cannot be had, `ABORTED`.
 */
export async function serveDashboard(
  folders: string | readonly string[],
  options: DashboardOptions = {},
): Promise<DashboardServer> {
  const { signal } = parseOptions(Options, options, "serveDashboard");
  throwIfAborted(signal);
  const server = new DashboardServer([folders].flat(), options, await readPageFiles());
  await server.listen();
  return server;
}

/** See {@link serveDashboard}. */
export class DashboardServer implements AsyncDisposable {
  readonly #runs: RunCollection;
  readonly #options: z.output<typeof Options>;
  readonly #token: string | undefined;
  readonly #access: Access;
  readonly #server: Server;
  readonly #page: ReadonlyMap<string, { type: string; body: Buffer }>;
  readonly #stop = new AbortController();
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(folders: readonly string[], options: DashboardOptions, { html, script, style }: PageFiles) {
    if (folders.length === 0) {
      throw new HindsearchError("INVALID_ARGUMENT", "The dashboard needs at least one folder with runs.");
    }
    this.#options = parseOptions(Options, options, "serveDashboard");
    this.#token = this.#options.token ?? (process.env.HINDSEARCH_SERVER_TOKEN || undefined);
    this.#access = new Access(this.#options.host, this.#token);
    this.#runs = new RunCollection(folders);
    this.#page = new Map([
      ["/", { type: "text/html; charset=utf-8", body: Buffer.from(html) }],
      ["/page.js", { type: "text/javascript; charset=utf-8", body: Buffer.from(script) }],
      ["/page.css", { type: "text/css; charset=utf-8", body: Buffer.from(style) }],
    ]);
    this.#server = createServer({ requestTimeout: 10_000 }, (request, response) => {
      void this.#handle(request, response);
    });
  }

  /** @internal */
  async listen(): Promise<void> {
    const { host, port, signal } = this.#options;
    await this.#runs.refresh();
    await new Promise<void>((ready, failed) => {
      this.#server.once("error", (cause) => {
        failed(new HindsearchError("IO", `Cannot serve on ${host}:${port}: ${cause.message}.`, { cause }));
      });
      this.#server.listen(port, host, ready);
    });
    const off = onAbort(signal, () => void this.close());
    this.#server.once("close", off);
  }

  /** Where it listens, e.g. `http://127.0.0.1:7860`. */
  get url(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
  }

  /** What to open in a browser: the url, with the token in its fragment, which browsers keep to themselves. */
  get address(): string {
    return this.#token === undefined
      ? `${this.url}/`
      : `${this.url}/#token=${encodeURIComponent(this.#token)}`;
  }

  /** Takes no more requests and ends those at work. May be called again. */
  async close(): Promise<void> {
    this.#closing ??= new Promise((done) => {
      this.#stop.abort();
      this.#server.close(() => done());
      this.#server.closeAllConnections();
    });
    await this.#closing;
  }

  /** The same as {@link DashboardServer.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      this.#access.checkHost(request);
      if (request.method !== "GET" && request.method !== "HEAD") {
        throw new RefusedRequest(405, "Method Not Allowed", { allow: "GET, HEAD" });
      }
      // Not resolved like an address: "//elsewhere" would name a host.
      const [path = "", parameters = ""] = (request.url ?? "").split("?", 2);
      const file = this.#page.get(path);
      if (file !== undefined) return send(response, 200, file.type, file.body);
      if (!path.startsWith("/api/")) throw new RefusedRequest(404, "Not Found");
      this.#access.check(request);
      refuseOtherSites(request);
      const reply = await this.#reply(path.slice(5), new URLSearchParams(parameters));
      sendJson(response, 200, reply);
    } catch (error) {
      this.#refuse(response, error);
    }
  }

  async #reply(name: string, parameters: URLSearchParams): Promise<unknown> {
    if (name === "runs") {
      await this.#runs.refresh();
      return this.#runs.summaries();
    }
    if (name === "compare") {
      const others = parameters.getAll("run").flatMap((id) => this.#runs.get(id) ?? []);
      return compareRuns(this.#run(parameters.get("base")), others);
    }
    const run = this.#run(parameters.get("run"));
    switch (name) {
      case "curves":
        return run.curves();
      case "config":
        return { text: run.config };
      case "trajectories":
        this.#index(run);
        return run.trajectories.page(
          parseRowQuery(parameters),
          whole(parameters.get("offset"), 0),
          whole(parameters.get("limit"), 100),
          parameters.get("locate") ?? undefined,
        );
      case "trajectory": {
        const view = await run.trajectory(parameters.get("id") ?? "");
        if (view === undefined) throw new RefusedRequest(404, "There is no such trajectory in this run.");
        return view;
      }
      default:
        throw new RefusedRequest(404, "Not Found");
    }
  }

  #run(id: string | null): WatchedRun {
    const run = this.#runs.get(id ?? "");
    if (run === undefined) throw new RefusedRequest(404, "There is no such run.");
    return run;
  }

  /** Goes on by itself: the answers say how far it is. */
  #index(run: WatchedRun): void {
    run.trajectories.update(this.#stop.signal).catch((error) => {
      if (!this.#stop.signal.aborted) this.#options.onError?.(error);
    });
  }

  #refuse(response: ServerResponse, error: unknown): void {
    if (response.destroyed) return;
    if (error instanceof RefusedRequest) {
      const { status, message, headers } = error;
      sendJson(response, status, { detail: message }, headers);
      return;
    }
    this.#options.onError?.(error);
    const known = error instanceof HindsearchError && (error.code === "INVALID_DATA" || error.code === "IO");
    const detail = known ? error.message : "the dashboard failed";
    sendJson(response, 500, { detail });
  }
}

/** A page of another site cannot read the answer, but it need not even make us work. */
function refuseOtherSites({ headers }: IncomingMessage): void {
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return;
  throw new RefusedRequest(403, "requests from other sites are not answered");
}

function whole(text: string | null, otherwise: number): number {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers?: Readonly<Record<string, string>>,
): void {
  send(response, status, "application/json", Buffer.from(JSON.stringify(body)), headers);
}

function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...HEADERS,
    "content-type": type,
    "content-length": body.length,
    ...headers,
  });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { parseOptions } from "../network/options.js";
import { LocalServer, serverShape } from "../network/server/local-server.js";
import { RefusedRequest } from "../network/server/refused-request.js";
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
  ...serverShape,
  port: z.int().min(0).max(65_535).default(7860),
});

/** For a request, from its first byte to the answer. */
const TIMEOUT_MS = 10_000;

/** Sent with everything. Nothing from elsewhere is loaded, no script stands in the page, no text becomes HTML. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
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
export class DashboardServer extends LocalServer {
  readonly #runs: RunCollection;
  readonly #page: ReadonlyMap<string, { type: string; body: Buffer }>;

  /** @internal */
  constructor(folders: readonly string[], options: DashboardOptions, { html, script, style }: PageFiles) {
    const checked = parseOptions(Options, options, "serveDashboard");
    if (folders.length === 0) {
      throw new HindsearchError("INVALID_ARGUMENT", "The dashboard needs at least one folder with runs.");
    }
    // Nobody loses anything when a page is not loaded to its end.
    super({ ...checked, timeoutMs: TIMEOUT_MS, graceMs: 0, headers: HEADERS });
    this.#runs = new RunCollection(folders);
    this.#page = new Map([
      ["/", { type: "text/html; charset=utf-8", body: Buffer.from(html) }],
      ["/page.js", { type: "text/javascript; charset=utf-8", body: Buffer.from(script) }],
      ["/page.css", { type: "text/css; charset=utf-8", body: Buffer.from(style) }],
    ]);
  }

  /** @internal */
  override async listen(): Promise<void> {
    await this.#runs.refresh();
    await super.listen();
  }

  /** What to open in a browser: the url, with the token in its fragment, which browsers keep to themselves. */
  get address(): string {
    return this.token === undefined ? `${this.url}/` : `${this.url}/#token=${encodeURIComponent(this.token)}`;
  }

  /** @internal */
  protected override async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.access.checkHost(request);
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw new RefusedRequest(405, "Method Not Allowed", { allow: "GET, HEAD" });
    }
    // Not resolved like an address: "//elsewhere" would name a host.
    const [path = "", parameters = ""] = (request.url ?? "").split("?", 2);
    const file = this.#page.get(path);
    if (file !== undefined) return this.sendBytes(response, 200, file.type, file.body);
    if (!path.startsWith("/api/")) throw new RefusedRequest(404, "Not Found");
    this.access.check(request);
    refuseOtherSites(request);
    this.send(response, 200, await this.#reply(path.slice(5), new URLSearchParams(parameters)));
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
    run.trajectories.update(this.stop.signal).catch((error) => {
      if (!this.stop.signal.aborted) this.tell(error);
    });
  }

  /** @internal */
  protected override refuse(response: ServerResponse, error: unknown): void {
    if (response.destroyed) return;
    if (error instanceof RefusedRequest) {
      this.send(response, error.status, { detail: error.message }, error.headers);
      return;
    }
    this.tell(error);
    const known = error instanceof HindsearchError && (error.code === "INVALID_DATA" || error.code === "IO");
    this.send(response, 500, { detail: known ? error.message : "the dashboard failed" });
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

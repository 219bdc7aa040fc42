import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { availableParallelism } from "node:os";
import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, onAbort, throwIfAborted, withDeadline } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { LatencyRecorder, type LatencySummary } from "../../network/latency.js";
import { count, milliseconds, parseOptions } from "../../network/options.js";
import type { Passage } from "../passage.js";
import type { Retriever } from "../retriever.js";
import { Access } from "./access.js";
import { CONTRACTS, RefusedRequest, type ServedSearch } from "./contracts.js";
import { readJsonBody } from "./request-body.js";

/** Settings of {@link serveRetriever}. Times are in milliseconds. */
export interface ServeOptions extends AbortOptions {
  /** Address to listen on. Default `127.0.0.1`; others need a token. */
  host?: string | undefined;
  /** Default 8000, as the reference server; 0 takes a free one. */
  port?: number | undefined;
  /**
   * Asked of every request but `GET /health`, as `Authorization: Bearer`. Default: the environment variable
   * `HINDSEARCH_SERVER_TOKEN`, else none.
   */
  token?: string | undefined;
  /** Requests that the retriever works on at the same time. Default `max(4, 2 * cores)`. */
  concurrency?: number | undefined;
  /** Requests that wait for their turn; further ones are answered 503 with Retry-After. Default 256. */
  maxQueue?: number | undefined;
  /** Most bytes of a request. Default 1 MiB. */
  maxBodyBytes?: number | undefined;
  /** Most queries of a request. Default 512. */
  maxQueries?: number | undefined;
  /** Most passages per query that a request may ask for. Default 100. */
  maxTopK?: number | undefined;
  /** Passages per query of a `/retrieve` that does not say. Default 3. */
  defaultTopK?: number | undefined;
  /** For a request, from its first byte to the answer; then 504. Default 60,000. */
  timeoutMs?: number | undefined;
  /** How long closing waits for the requests at work before it ends them. Default 10,000. */
  graceMs?: number | undefined;
  /** Gets what the retriever threw; clients are told only that it failed. */
  onError?: ((error: unknown) => void) | undefined;
}

const Options = z.strictObject({
  host: z.string().min(1).default("127.0.0.1"),
  port: z.int().min(0).max(65_535).default(8000),
  token: z.string().min(1).optional(),
  concurrency: count.default(Math.max(4, 2 * availableParallelism())),
  maxQueue: z.int().min(0).default(256),
  maxBodyBytes: count.default(2 ** 20),
  maxQueries: count.default(512),
  maxTopK: count.default(100),
  defaultTopK: count.default(3),
  timeoutMs: milliseconds.min(1).default(60_000),
  graceMs: milliseconds.default(10_000),
  onError: z.custom<(error: unknown) => void>((value) => typeof value === "function").optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/** What a {@link RetrieverServer} did so far. */
export interface ServeStats {
  /** Requests answered with passages. */
  served: number;
  /** Requests refused because of what they were or who sent them (4xx). */
  refused: number;
  /** Requests turned away because the queue was full. */
  overloaded: number;
  /** Requests whose search failed or took too long. */
  failed: number;
  /** From a request's admission to its answer. */
  latency: LatencySummary;
}

/** Longer than the keep-alive of the usual HTTP clients, so that none sends into a connection that is being closed. */
const KEEP_ALIVE_MS = 75_000;

/**
 * Serves a retriever to other trainers, Python ones above all, over HTTP:
 *
 * - `POST /retrieve` is Search-R1's: `{"queries": [], "topk"?, "return_scores"?}` gives
 *   `{"result": [[{"document": {"id", "contents"}, "score"}]]}`, without scores `{"result": [[{"id", "contents"}]]}`.
 * - `POST /search` and `POST /batch_search` are those of FlashRAG's servers: `{"query", "top_n"?, "return_score"?}`.
 * - `GET /health` gives `{"status": "healthy", "retrievers": {"total", "available"}}`.
 *
 * More requests than are worked on wait in a bounded queue, first come first served; what does not fit is told to come
 * back (503, which verl's client repeats, other than 429). A client that hangs up takes its search with it. If the
 * retriever fails the answer is 502: never an empty result.
 *
 * @param retriever - Not closed with the server.
 * @param options - Address and limits; `signal` closes the server.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong options or an open address without token, `IO` if the port
 * cannot be had, `ABORTED`.
 */
export async function serveRetriever(
  retriever: Retriever,
  options: ServeOptions = {},
): Promise<RetrieverServer> {
  const checked = parseOptions(Options, options, "serveRetriever");
  throwIfAborted(checked.signal);
  const server = new RetrieverServer(retriever, checked);
  await server.listen();
  return server;
}

/** See {@link serveRetriever}. Plain `node:http`: three routes do not pay for a framework that every user would install. */
export class RetrieverServer implements AsyncDisposable {
  readonly #retriever: Retriever;
  readonly #options: z.output<typeof Options>;
  readonly #access: Access;
  readonly #server: Server;
  readonly #queue: PQueue;
  readonly #latency = new LatencyRecorder();
  readonly #stats = { served: 0, refused: 0, overloaded: 0, failed: 0 };
  /** Fires when the grace of closing is over. */
  readonly #stop = new AbortController();
  /** Requests admitted and not answered yet. */
  #admitted = 0;
  #closing: Promise<void> | undefined;
  #drained = () => {};

  /** @internal */
  constructor(retriever: Retriever, options: z.output<typeof Options>) {
    this.#retriever = retriever;
    this.#options = options;
    this.#access = new Access(
      options.host,
      options.token ?? (process.env.HINDSEARCH_SERVER_TOKEN || undefined),
    );
    this.#queue = new PQueue({ concurrency: options.concurrency });
    this.#server = createServer(
      { requestTimeout: options.timeoutMs, keepAliveTimeout: KEEP_ALIVE_MS },
      (request, response) => void this.#handle(request, response),
    );
  }

  /** @internal */
  async listen(): Promise<void> {
    const { host, port, signal } = this.#options;
    await new Promise<void>((ready, failed) => {
      this.#server.once("error", (cause) => {
        failed(new HindsearchError("IO", `Cannot serve on ${host}:${port}: ${cause.message}.`, { cause }));
      });
      this.#server.listen(port, host, ready);
    });
    const off = onAbort(signal, () => void this.close());
    this.#server.once("close", off);
  }

  /** Where it listens, e.g. `http://127.0.0.1:8000`. */
  get url(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
  }

  /** Figures for logs and panels. */
  stats(): ServeStats {
    return { ...this.#stats, latency: this.#latency.summary() };
  }

  /** Takes no more requests, waits for those at work up to `graceMs`, then ends them. May be called again. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  /** The same as {@link RetrieverServer.close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    const drained = new Promise<void>((done) => {
      this.#drained = done;
      if (this.#admitted === 0) done();
    });
    const { graceMs } = this.#options;
    const timers = [
      setTimeout(() => this.#stop.abort(), graceMs),
      // Those that are told so read it within a second, or do not read at all.
      setTimeout(() => this.#server.closeAllConnections(), graceMs + 1000),
    ];
    await drained;
    // They would stay for minutes; the others close behind their answers.
    this.#server.closeIdleConnections();
    await closed;
    for (const timer of timers) clearTimeout(timer);
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const path = (request.url ?? "").split("?", 1)[0] as string;
      if (path === "/health") {
        this.#access.checkHost(request);
        return this.#send(response, 200, this.#health());
      }
      const contract = CONTRACTS.get(path);
      if (contract === undefined) throw new RefusedRequest(404, "Not Found");
      this.#access.check(request);
      if (request.method !== "POST") throw new RefusedRequest(405, "Method Not Allowed", { allow: "POST" });
      this.#checkRoom();
      this.#admitted++;
      const start = performance.now();
      try {
        const body = await readJsonBody(request, this.#options.maxBodyBytes);
        const search = contract(body, this.#options);
        const lists = await this.#search(search, response);
        this.#stats.served++;
        this.#latency.record(performance.now() - start);
        this.#send(response, 200, search.answer(lists));
      } finally {
        if (--this.#admitted === 0) this.#drained();
      }
    } catch (error) {
      this.#refuse(response, error);
    }
  }

  /** Before the body is read: what waits must not fill the memory. */
  #checkRoom(): void {
    const { concurrency, maxQueue } = this.#options;
    if (this.#closing !== undefined)
      throw new RefusedRequest(503, "the server is closing", { "retry-after": "5" });
    if (this.#admitted < concurrency + maxQueue) return;
    throw new RefusedRequest(503, "too many requests are waiting", { "retry-after": "1" });
  }

  /** Waits for its turn and searches, until the answer, the time-out, or the client hangs up. */
  async #search(search: ServedSearch, response: ServerResponse): Promise<Passage[][]> {
    const { timeoutMs } = this.#options;
    const gone = new AbortController();
    const hangUp = () => gone.abort();
    response.once("close", hangUp);
    const off = onAbort(this.#stop.signal, hangUp);
    try {
      return await withDeadline(timeoutMs, gone.signal, async (signal, timedOut) => {
        try {
          const lists = await this.#queue.add(
            () => {
              throwIfAborted(signal);
              return this.#retriever.search(search.queries, search.topK, { signal });
            },
            { signal },
          );
          if (lists.length === search.queries.length) return lists;
          throw new Error(`the retriever gave ${lists.length} lists for ${search.queries.length} queries`);
        } catch (error) {
          if (!timedOut()) throw error;
          throw new RefusedRequest(504, `no answer within ${timeoutMs} ms`);
        }
      });
    } finally {
      response.off("close", hangUp);
      off();
    }
  }

  #refuse(response: ServerResponse, error: unknown): void {
    // Nobody is there to be told.
    if (response.destroyed) return;
    if (!(error instanceof RefusedRequest)) {
      const stopped = this.#stop.signal.aborted;
      this.#stats.failed++;
      if (!stopped) this.#options.onError?.(error);
      const headers = { "retry-after": "5" };
      if (stopped) this.#send(response, 503, { detail: "the server is closing" }, headers);
      else this.#send(response, 502, { detail: "the search failed" });
      return;
    }
    const { status, message, headers } = error;
    if (status < 500) this.#stats.refused++;
    else if (status === 504) this.#stats.failed++;
    else this.#stats.overloaded++;
    this.#send(response, status, { detail: message }, headers);
  }

  #send(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
    const text = Buffer.from(JSON.stringify(body));
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": text.length,
      "cache-control": "no-store",
      ...headers,
      ...(this.#closing !== undefined && { connection: "close" }),
    });
    response.end(text);
  }

  #health() {
    const { concurrency } = this.#options;
    return {
      status: this.#closing === undefined ? "healthy" : "closing",
      retrievers: { total: concurrency, available: concurrency - this.#queue.pending },
    };
  }
}

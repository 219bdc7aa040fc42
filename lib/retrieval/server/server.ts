import type { IncomingMessage, ServerResponse } from "node:http";
import { availableParallelism } from "node:os";
import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../../abort.js";
import { LatencyRecorder, type LatencySummary } from "../../network/latency.js";
import { count, milliseconds, parseOptions } from "../../network/options.js";
import { LocalServer, serverShape } from "../../network/server/local-server.js";
import { RefusedRequest } from "../../network/server/refused-request.js";
import { readJsonBody } from "../../network/server/request-body.js";
import type { Passage } from "../passage.js";
import type { Retriever } from "../retriever.js";
import { CONTRACTS, type ServedSearch } from "./contracts.js";

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
  ...serverShape,
  port: z.int().min(0).max(65_535).default(8000),
  concurrency: count.default(Math.max(4, 2 * availableParallelism())),
  maxQueue: z.int().min(0).default(256),
  maxBodyBytes: count.default(2 ** 20),
  maxQueries: count.default(512),
  maxTopK: count.default(100),
  defaultTopK: count.default(3),
  timeoutMs: milliseconds.min(1).default(60_000),
  graceMs: milliseconds.default(10_000),
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

/** See {@link serveRetriever}. */
export class RetrieverServer extends LocalServer {
  readonly #retriever: Retriever;
  readonly #options: z.output<typeof Options>;
  readonly #queue: PQueue;
  readonly #latency = new LatencyRecorder();
  readonly #stats = { served: 0, refused: 0, overloaded: 0, failed: 0 };

  /** @internal */
  constructor(retriever: Retriever, options: z.output<typeof Options>) {
    super({ ...options, maxAdmitted: options.concurrency + options.maxQueue });
    this.#retriever = retriever;
    this.#options = options;
    this.#queue = new PQueue({ concurrency: options.concurrency });
  }

  /** Figures for logs and panels. */
  stats(): ServeStats {
    return { ...this.#stats, latency: this.#latency.summary() };
  }

  /** @internal */
  protected override async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?", 1)[0] as string;
    if (path === "/health") {
      this.access.checkHost(request);
      return this.send(response, 200, this.#health());
    }
    const contract = CONTRACTS.get(path);
    if (contract === undefined) throw new RefusedRequest(404, "Not Found");
    this.access.check(request);
    if (request.method !== "POST") throw new RefusedRequest(405, "Method Not Allowed", { allow: "POST" });
    await this.admit(async () => {
      const start = performance.now();
      const body = await readJsonBody(request, this.#options.maxBodyBytes);
      const search = contract(body, this.#options);
      const lists = await this.whileWanted(response, (signal) => this.#search(search, signal));
      this.#stats.served++;
      this.#latency.record(performance.now() - start);
      this.send(response, 200, search.answer(lists));
    });
  }

  /** Waits for its turn and searches. */
  async #search(search: ServedSearch, signal: AbortSignal): Promise<Passage[][]> {
    const lists = await this.#queue.add(
      () => {
        throwIfAborted(signal);
        return this.#retriever.search(search.queries, search.topK, { signal });
      },
      { signal },
    );
    if (lists.length === search.queries.length) return lists;
    throw new Error(`the retriever gave ${lists.length} lists for ${search.queries.length} queries`);
  }

  /** @internal */
  protected override refuse(response: ServerResponse, error: unknown): void {
    // Nobody is there to be told.
    if (response.destroyed) return;
    if (!(error instanceof RefusedRequest)) {
      const stopped = this.stop.signal.aborted;
      this.#stats.failed++;
      if (!stopped) this.tell(error);
      const headers = { "retry-after": "5" };
      if (stopped) this.send(response, 503, { detail: "the server is closing" }, headers);
      else this.send(response, 502, { detail: "the search failed" });
      return;
    }
    const { status, message, headers } = error;
    if (status < 500) this.#stats.refused++;
    else if (status === 504) this.#stats.failed++;
    else this.#stats.overloaded++;
    this.send(response, status, { detail: message }, headers);
  }

  #health() {
    const { concurrency } = this.#options;
    return {
      status: this.closing ? "closing" : "healthy",
      retrievers: { total: concurrency, available: concurrency - this.#queue.pending },
    };
  }
}

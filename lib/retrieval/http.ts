import { Agent } from "undici";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { LatencyRecorder, type LatencySummary } from "../network/latency.js";
import { count, endpoint, headers, milliseconds, parseOptions, retryShape } from "../network/options.js";
import { type PostTarget, postJson } from "../network/post-json.js";
import { AttemptError, Retrier, type RetryOptions } from "../network/retry.js";
import { Scrubber } from "../network/secrets.js";
import { Batcher, type Outcome } from "./batcher.js";
import { cutText } from "./cut.js";
import type { Passage } from "./passage.js";
import { checkSearch, closedError, type Retriever } from "./retriever.js";
import { parseSearchR1, type SearchR1Request } from "./search-r1.js";

/** Settings of {@link HttpRetriever}. Times are in milliseconds. */
export interface HttpRetrieverOptions extends RetryOptions {
  /** Address of the endpoint, e.g. `http://127.0.0.1:8000/retrieve`; http or https, without user and password. */
  url: string;
  /** Sent as `Authorization: Bearer`. Default: the environment variable `HINDSEARCH_RETRIEVER_API_KEY`, else nothing. */
  apiKey?: string | undefined;
  /** Further request headers. Their values are treated as secrets. */
  headers?: Record<string, string> | undefined;
  /** For one attempt, from connecting to the last byte. Default 30,000. */
  timeoutMs?: number | undefined;
  /** Most bytes of a response. Default 8 MiB. */
  maxResponseBytes?: number | undefined;
  /** Most distinct queries in one request; further ones go into the next. Default 64. */
  batchSize?: number | undefined;
  /** How long a search waits for others to share its request. Default 5. */
  batchWindowMs?: number | undefined;
  /** Requests at work at the same time. Default 8. */
  concurrency?: number | undefined;
  /** Longer queries are cut to so many characters (UTF-16 units, never inside a pair). Default 4,096. */
  maxQueryLength?: number | undefined;
}

/** What a {@link HttpRetriever} did so far. */
export interface HttpRetrieverStats {
  /** Queries asked for. */
  queries: number;
  /** Queries sent: without empty ones, and once for each batch in which a query occurs more than once. */
  sent: number;
  /** Requests, retries not counted. */
  requests: number;
  /** Attempts that followed a failed one. */
  retries: number;
  /** Requests that failed for good. */
  failures: number;
  /** Requests including their retries and waits. */
  latency: LatencySummary;
}

const Options = z.strictObject({
  url: endpoint,
  apiKey: z.string().min(1).optional(),
  headers,
  timeoutMs: milliseconds.min(1).default(30_000),
  maxResponseBytes: count.default(8 * 2 ** 20),
  batchSize: count.default(64),
  batchWindowMs: milliseconds.default(5),
  concurrency: count.default(8),
  maxQueryLength: count.default(4096),
  ...retryShape,
});

/** Refusals that one query may cause for a whole batch. */
const BATCH_REFUSALS: readonly (number | undefined)[] = [400, 413, 422];

/**
 * A client of Search-R1's `POST /retrieve`, which most search services for this kind of training speak.
 *
 * Concurrent searches share requests, each distinct query once. Attempts that time out, break off or answer 408, 409,
 * 429, 5xx or something that is no JSON are repeated with exponential, jittered waits; Retry-After is waited as told.
 * If the server refuses a batch (400, 413, 422), its halves are tried, so that one query cannot fail the others.
 * Redirects are not followed. Secrets never appear in messages.
 */
export class HttpRetriever implements Retriever {
  readonly #options: z.output<typeof Options>;
  readonly #target: PostTarget;
  readonly #agent: Agent;
  readonly #retrier: Retrier;
  readonly #batcher: Batcher;
  readonly #latency = new LatencyRecorder();
  readonly #stats = { queries: 0, sent: 0, requests: 0, failures: 0 };
  /** Without the query, which may hold a key. */
  readonly #name: string;
  #closing: Promise<void> | undefined;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: HttpRetrieverOptions) {
    this.#options = parseOptions(Options, options, "HttpRetriever");
    const { url, headers, timeoutMs, maxResponseBytes, concurrency } = this.#options;
    const { origin, pathname, searchParams } = new URL(url);
    const apiKey = this.#options.apiKey ?? (process.env.HINDSEARCH_RETRIEVER_API_KEY || undefined);
    this.#name = `${origin}${pathname}`;
    this.#agent = new Agent({ connections: concurrency, connectTimeout: timeoutMs });
    this.#target = {
      url,
      headers: apiKey === undefined ? headers : { ...headers, authorization: `Bearer ${apiKey}` },
      dispatcher: this.#agent,
      timeoutMs,
      maxResponseBytes,
      scrubber: new Scrubber([apiKey, ...Object.values(headers), ...searchParams.values()]),
    };
    this.#retrier = new Retrier(this.#options);
    this.#batcher = new Batcher((queries, topK, signal) => this.#answer(queries, topK, signal), {
      size: this.#options.batchSize,
      windowMs: this.#options.batchWindowMs,
      concurrency,
    });
  }

  /** See {@link Retriever.search}. A query without any visible character is answered here: it finds nothing. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#closing !== undefined) throw closedError("HttpRetriever");
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const cut = queries.map((query) => cutText(query.trim(), this.#options.maxQueryLength));
    const sent = cut.filter((query) => query !== "");
    this.#stats.queries += queries.length;
    const lists = await this.#batcher.search(sent, topK, signal);
    return cut.map((query) => (query === "" ? [] : (lists.shift() as Passage[])));
  }

  /** Figures for logs and panels. */
  stats(): HttpRetrieverStats {
    return { ...this.#stats, retries: this.#retrier.retried, latency: this.#latency.summary() };
  }

  /** Waits for the requests at work, then closes the connections. */
  async close(): Promise<void> {
    this.#closing ??= this.#batcher.idle().then(() => this.#agent.close());
    await this.#closing;
  }

  async #answer(queries: string[], topK: number, signal: AbortSignal): Promise<Outcome[]> {
    const start = performance.now();
    this.#stats.requests++;
    this.#stats.sent += queries.length;
    try {
      return await this.#retrier.run(() => this.#attempt(queries, topK, signal), signal);
    } catch (cause) {
      if (cause instanceof AttemptError && queries.length > 1 && BATCH_REFUSALS.includes(cause.status)) {
        const half = queries.length >>> 1;
        const first = await this.#answer(queries.slice(0, half), topK, signal);
        return [...first, ...(await this.#answer(queries.slice(half), topK, signal))];
      }
      if (!signal.aborted) this.#stats.failures++;
      return queries.map(() => this.#failure(cause));
    } finally {
      if (!signal.aborted) this.#latency.record(performance.now() - start);
    }
  }

  async #attempt(queries: string[], topK: number, signal: AbortSignal): Promise<Passage[][]> {
    const body: SearchR1Request = { queries, topk: topK, return_scores: true };
    return parseSearchR1(await postJson(this.#target, body, signal), queries.length, topK);
  }

  #failure(cause: unknown): HindsearchError {
    if (cause instanceof HindsearchError) return cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    return new HindsearchError("RETRIEVAL_FAILED", `Search at ${this.#name} failed: ${reason}.`, { cause });
  }
}

import { z } from "zod";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { type BreakerOptions, breakerShape } from "../network/breaker.js";
import { GuardedRetrier, type RequestStats } from "../network/guarded-retrier.js";
import { count, milliseconds, parseOptions, retryShape } from "../network/options.js";
import { AttemptError, attemptWithin, type RetryOptions } from "../network/retry.js";
import { Scrubber } from "../network/secrets.js";
import { Batcher, type Outcome } from "./batcher.js";
import { cutText } from "./cut.js";
import type { Passage } from "./passage.js";
import { checkSearch, closedError, type Retriever } from "./retriever.js";

/** Settings of every engine behind a connection. Times are in milliseconds. */
export interface RemoteOptions extends RetryOptions, BreakerOptions {
  /** For one attempt, from connecting to the last byte. Default 30,000. */
  timeoutMs?: number | undefined;
  /** Most distinct queries in one request; further ones go into the next. Default 64 unless the engine says otherwise. */
  batchSize?: number | undefined;
  /** How long a search waits for others to share its request. Default 5. */
  batchWindowMs?: number | undefined;
  /** Requests at work at the same time. Default 8. */
  concurrency?: number | undefined;
  /** Longer queries are cut to so many characters (UTF-16 units, never inside a pair). Default 4,096. */
  maxQueryLength?: number | undefined;
}

/**
 * Of {@link RemoteOptions}, for an engine's schema.
 *
 * @internal
 */
export const remoteShape = {
  timeoutMs: milliseconds.min(1).default(30_000),
  batchSize: count.default(64),
  batchWindowMs: milliseconds.default(5),
  concurrency: count.default(8),
  maxQueryLength: count.default(4096),
  ...retryShape,
  ...breakerShape,
};

const Options = z.object(remoteShape);

/** What a retriever behind a connection did so far. */
export interface RemoteStats extends RequestStats {
  /** Queries asked for. */
  queries: number;
  /** Queries in requests: without empty ones, and once for each batch in which a query occurs more than once. */
  sent: number;
  /** Requests, retries not counted; those that the breaker refused are among them. */
  requests: number;
  /** Requests that failed for good. */
  failures: number;
}

/** What an engine answers to one query: its passages, best first, or why this query alone failed. */
export type QueryOutcome = Passage[] | AttemptError;

/** Refusals that one query may cause for a whole batch. */
const BATCH_REFUSALS: readonly (number | undefined)[] = [400, 413, 422];

/**
 * What all engines behind a connection have in common: an engine adds how one request is made.
 *
 * Concurrent searches share requests, each distinct query once. Attempts that fail with a retryable {@link AttemptError},
 * or not within `timeoutMs`, are repeated with exponential, jittered waits, and only for the queries without an answer.
 * If the engine refuses a batch (400, 413, 422), its halves are tried, so that one query cannot fail the others.
 *
 * After `breakerFailures` requests in a row that failed for what may pass, searches fail at once for `breakerOpenMs`, and
 * the error says since when, why and until when. Then one request tries whether the engine is back.
 */
export abstract class RemoteRetriever implements Retriever {
  readonly #options: z.output<typeof Options>;
  readonly #where: string;
  readonly #requests: GuardedRetrier;
  readonly #scrubber: Scrubber;
  readonly #batcher: Batcher;
  readonly #stats = { queries: 0, sent: 0, requests: 0, failures: 0 };
  #closing: Promise<void> | undefined;

  /**
   * @param where - The engine's address for messages, without secrets.
   * @param options - Settings; others than those of {@link RemoteOptions} are ignored.
   * @param secrets - Keys and the like that the engine is sent. `***` stands in their place in messages and, from 12
   * characters on, in passages: a server may repeat them there.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
   */
  protected constructor(
    where: string,
    options: RemoteOptions,
    secrets: readonly (string | undefined)[] = [],
  ) {
    this.#where = where;
    this.#scrubber = new Scrubber(secrets);
    this.#options = parseOptions(Options, options, new.target.name);
    this.#requests = new GuardedRetrier(this.#options);
    const { batchSize: size, batchWindowMs: windowMs, concurrency } = this.#options;
    const answer = this.#answer.bind(this);
    this.#batcher = new Batcher(answer, { size, windowMs, concurrency });
  }

  /**
   * Makes one request: a single attempt, without retries of its own.
   *
   * @param queries - Distinct, none empty.
   * @param signal - Fires when nobody wants the answer any more, and after `timeoutMs`.
   * @returns One outcome per query, in their order. Lists longer than `topK` are cut.
   * @throws {@link AttemptError} if the request failed as a whole; its message must hold no secret. Other errors are not
   * repeated.
   */
  protected abstract ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<QueryOutcome[]>;

  /** Closes the connections; nothing is at work any more. */
  protected abstract disconnect(): Promise<void>;

  /** See {@link Retriever.search}. A query without any visible character is answered here: it finds nothing. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#closing !== undefined) throw closedError(this.constructor.name);
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const cut = queries.map((query) => cutText(query.trim(), this.#options.maxQueryLength));
    const sent = cut.filter((query) => query !== "");
    this.#stats.queries += queries.length;
    const lists = await this.#batcher.search(sent, topK, signal);
    return cut.map((query) => (query === "" ? [] : (lists.shift() as Passage[])));
  }

  /** Figures for logs and panels. */
  stats(): RemoteStats {
    return { ...this.#stats, ...this.#requests.stats() };
  }

  /** Waits for the requests at work, then closes the connections. */
  async close(): Promise<void> {
    this.#closing ??= this.#batcher.idle().then(() => this.disconnect());
    await this.#closing;
  }

  async #answer(queries: string[], topK: number, signal: AbortSignal): Promise<Outcome[]> {
    this.#stats.requests++;
    this.#stats.sent += queries.length;
    const outcomes = new Map<string, Outcome>();
    const open = () => queries.filter((query) => !outcomes.has(query));
    try {
      await this.#requests.run(() => this.#attempt(open(), topK, signal, outcomes), signal);
    } catch (cause) {
      for (const [query, outcome] of await this.#giveUp(open(), topK, signal, cause))
        outcomes.set(query, outcome);
    }
    return queries.map((query) => outcomes.get(query) as Outcome);
  }

  /** One request; enters what is final and throws if something is worth another attempt. */
  async #attempt(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
    outcomes: Map<string, Outcome>,
  ): Promise<void> {
    const { timeoutMs } = this.#options;
    const answers = await attemptWithin(timeoutMs, signal, (inner) =>
      abortable(this.ask(queries, topK, inner), inner),
    );
    if (answers.length !== queries.length) {
      const message = `${answers.length} result lists for ${queries.length} queries`;
      throw new AttemptError(message, { retryable: false });
    }
    let again: AttemptError | undefined;
    for (const [i, answer] of answers.entries()) {
      const query = queries[i] as string;
      if (!(answer instanceof AttemptError)) outcomes.set(query, this.#passages(answer, topK));
      else if (answer.retryable) again ??= answer;
      else outcomes.set(query, this.#failure(answer));
    }
    if (again === undefined) return;
    const { message, status, retryAfterMs } = again;
    const answered = outcomes.size > 0;
    throw new AttemptError(message, { retryable: true, status, retryAfterMs, answered, cause: again });
  }

  /** The outcomes of a request's open queries after its last attempt. */
  async #giveUp(
    queries: string[],
    topK: number,
    signal: AbortSignal,
    cause: unknown,
  ): Promise<[string, Outcome][]> {
    if (cause instanceof AttemptError && queries.length > 1 && BATCH_REFUSALS.includes(cause.status)) {
      const half = queries.length >>> 1;
      const first = await this.#answer(queries.slice(0, half), topK, signal);
      const outcomes = [...first, ...(await this.#answer(queries.slice(half), topK, signal))];
      return queries.map((query, i) => [query, outcomes[i] as Outcome]);
    }
    if (!signal.aborted) this.#stats.failures++;
    const failure = this.#failure(cause);
    return queries.map((query) => [query, failure]);
  }

  #passages(answer: readonly Passage[], topK: number): Passage[] {
    const scrub = (text: string) => this.#scrubber.scrubContents(text);
    return answer.slice(0, topK).map((passage) => ({
      ...passage,
      id: scrub(passage.id),
      title: scrub(passage.title),
      text: scrub(passage.text),
    }));
  }

  #failure(cause: unknown): HindsearchError {
    if (cause instanceof HindsearchError) return cause;
    const reason = this.#scrubber.scrub(cause instanceof Error ? cause.message : String(cause));
    return new HindsearchError("RETRIEVAL_FAILED", `Search at ${this.#where} failed: ${reason}.`, { cause });
  }
}

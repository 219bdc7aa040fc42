import { type AbortOptions, abortable, throwIfAborted, withDeadline } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { foreignReason } from "../network/secrets.js";
import { cutText } from "../retrieval/cut.js";
import type { Passage } from "../retrieval/passage.js";
import type { Retriever } from "../retrieval/retriever.js";

/** What became of one search. */
export type SearchOutcome =
  | { ok: true; passages: Passage[] }
  /** After the retries; `error` is the last one, its message short and without what looks like a secret. */
  | { ok: false; error: HindsearchError };

/** How searches are sent. */
export interface SearchQueueOptions extends AbortOptions {
  /** Passages per query. */
  topK: number;
  /** Further attempts for a query whose search failed, alone and not in a batch. */
  retries: number;
  /** Milliseconds for one call of the retriever, which counts as failed when they are over. */
  deadline: number;
  /** Calls of the retriever at the same time. */
  concurrency: number;
}

/** Counts of a queue. */
export interface SearchQueueStatistics {
  /** Queries asked. */
  searches: number;
  /** Queries that failed in the end. */
  failures: number;
  /** Calls of the retriever, retries included. */
  calls: number;
  /** Milliseconds in which at least one call was under way. */
  milliseconds: number;
}

/**
 * Gathers the searches of many trajectories into batches for one retriever.
 *
 * While `concurrency` calls are under way, new queries wait and then leave together: a slow service gets fewer and
 * larger batches, not more calls. A batch that fails is tried again query by query, so that one query that the
 * service cannot digest does not take its neighbours with it.
 */
export class SearchQueue {
  readonly #retriever: Retriever;
  readonly #options: SearchQueueOptions;
  #waiting: { query: string; settle: (outcome: SearchOutcome) => void; fail: (error: unknown) => void }[] =
    [];
  #calls = 0;
  #busySince = 0;
  readonly #statistics: SearchQueueStatistics = { searches: 0, failures: 0, calls: 0, milliseconds: 0 };

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` for options with which nothing would be sent or nothing end. */
  constructor(retriever: Retriever, options: SearchQueueOptions) {
    checkSearchLimits(options);
    this.#retriever = retriever;
    this.#options = options;
  }

  /** Counts so far. */
  get statistics(): Readonly<SearchQueueStatistics> {
    return this.#statistics;
  }

  /** Searches for one query. Rejects with `ABORTED` only: a failed search is a value. */
  search(query: string): Promise<SearchOutcome> {
    this.#statistics.searches++;
    const outcome = new Promise<SearchOutcome>((settle, fail) => {
      this.#waiting.push({ query, settle, fail });
    });
    // In a microtask: the searches that one step of the decoder ended then leave together.
    queueMicrotask(() => this.#send());
    return outcome;
  }

  #send(): void {
    if (this.#waiting.length === 0 || this.#calls >= this.#options.concurrency) return;
    const batch = this.#waiting;
    this.#waiting = [];
    if (this.#calls++ === 0) this.#busySince = performance.now();
    this.#outcomes(batch.map(({ query }) => query))
      .then(
        (outcomes) => {
          for (const [i, { settle }] of batch.entries()) settle(outcomes[i] as SearchOutcome);
        },
        (error) => {
          for (const { fail } of batch) fail(error);
        },
      )
      .finally(() => {
        if (--this.#calls === 0) this.#statistics.milliseconds += performance.now() - this.#busySince;
        this.#send();
      });
  }

  async #outcomes(queries: string[]): Promise<SearchOutcome[]> {
    const together = await this.#attempt(queries);
    if (together.ok) return together.lists.map((passages) => ({ ok: true, passages }));
    const outcomes: SearchOutcome[] = [];
    // One after the other: a service in trouble must not get more calls than before.
    for (const query of queries) outcomes.push(await this.#alone(query, together.error));
    return outcomes;
  }

  async #alone(query: string, first: HindsearchError): Promise<SearchOutcome> {
    let error = first;
    for (let retry = 0; retry < this.#options.retries; retry++) {
      const attempt = await this.#attempt([query]);
      if (attempt.ok) return { ok: true, passages: attempt.lists[0] as Passage[] };
      error = attempt.error;
    }
    this.#statistics.failures++;
    return { ok: false, error };
  }

  async #attempt(
    queries: string[],
  ): Promise<{ ok: true; lists: Passage[][] } | { ok: false; error: HindsearchError }> {
    const { signal, topK, deadline } = this.#options;
    this.#statistics.calls++;
    try {
      const lists = await withDeadline(deadline, signal, async (inner, timedOut) => {
        try {
          return await abortable(this.#retriever.search([...queries], topK, { signal: inner }), inner);
        } catch (error) {
          if (!timedOut()) throw error;
          throw new HindsearchError("RETRIEVAL_FAILED", `No reply within ${deadline} ms.`, { cause: error });
        }
      });
      return { ok: true, lists: readReply(lists, queries.length, topK) };
    } catch (error) {
      throwIfAborted(signal);
      const message = foreignReason(error);
      const told = error instanceof HindsearchError && error.message === message;
      return {
        ok: false,
        error: told ? error : new HindsearchError("RETRIEVAL_FAILED", message, { cause: error }),
      };
    }
  }
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming the option of a rollout that is wrong.
 * @internal
 */
export function checkSearchLimits(
  limits: Pick<SearchQueueOptions, "retries" | "deadline" | "concurrency">,
): void {
  const { retries, deadline, concurrency } = limits;
  const check = (name: string, value: number, least: number, most: number) => {
    if (Number.isInteger(value) && value >= least && value <= most) return;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${name} is ${value}, expected a whole number from ${least} to ${most}.`,
    );
  };
  check("searchRetries", retries, 0, 1000);
  // Timers count in 31 bits; a longer one would fire at once.
  check("searchDeadline", deadline, 1, 2 ** 31 - 1);
  check("searchConcurrency", concurrency, 1, 65_536);
}

/** Longer texts and titles of passages are cut to so many characters: nobody downstream can use the rest. */
const MAX_TEXT = 65_536;
const MAX_TITLE = 1_024;

/**
 * Checks what a retriever returned and takes out of it what a passage has. A reply in which lists and queries do not
 * match would hand a trajectory the passages of another.
 */
function readReply(lists: unknown, queries: number, topK: number): Passage[][] {
  const fail = (what: string) => new HindsearchError("RETRIEVAL_FAILED", `The retriever returned ${what}.`);
  if (!Array.isArray(lists) || lists.length !== queries) {
    const found = Array.isArray(lists) ? `${lists.length} lists` : typeof lists;
    throw fail(`${found} for ${queries} queries; expected one list each, in their order`);
  }
  return lists.map((list: unknown) => {
    if (!Array.isArray(list) || list.length > topK) throw fail(`no list of at most ${topK} passages`);
    return list.map((passage: unknown): Passage => {
      const { id, title, text, score } = (passage ?? {}) as Record<string, unknown>;
      if (typeof id !== "string" || typeof title !== "string" || typeof text !== "string") {
        throw fail("a passage without id, title and text");
      }
      const kept = { id, title: cutText(title, MAX_TITLE), text: cutText(text, MAX_TEXT) };
      return Number.isFinite(score) ? { ...kept, score: score as number } : kept;
    });
  });
}

import { HindsearchError, type HindsearchErrorCode } from "../errors.js";
import { cutText } from "../retrieval/cut.js";
import type { Retriever } from "../retrieval/retriever.js";

/**
 * What a rollout does when the search service is gone.
 *
 * - `pause`: trajectories that search wait, the others go on, and the service is tried again until it answers.
 * - `fail`: trajectories that search are `search failed` once their retries are used up.
 */
export type OutagePolicy = "pause" | "fail";

/** An outage of the search service that a rollout sits out. */
export interface OutageProgress {
  /** When it began, in milliseconds since 1970. */
  since: number;
  /** Why the last call failed: short, and without what looks like a secret. */
  reason: string;
  /** Searches that wait, one of each trajectory. */
  waiting: number;
  /** Calls that found the service still gone. */
  tries: number;
}

/** Codes that say nothing about whether it may pass; all others no repetition changes. */
const OPEN_CODES: readonly HindsearchErrorCode[] = ["RETRIEVAL_FAILED", "IO", "ABORTED"];

/**
 * Whether a search that failed may succeed later.
 *
 * @returns `undefined` if the error does not say.
 */
export function mayPass(error: HindsearchError): boolean | undefined {
  return OPEN_CODES.includes(error.code) ? error.retryable : false;
}

/** The last query to which each retriever found something. Of the process: a run has many rollouts. */
const answered = new WeakMap<Retriever, string>();

/** Keeps a query to which a retriever found something. */
export function rememberAnswered(retriever: Retriever, query: string): void {
  answered.set(retriever, query);
}

/**
 * A query that a retriever answers if it answers any: one that it has answered, with a number behind it, since a cache
 * in between would answer the very same one during an outage too.
 *
 * @returns `undefined` if it has never found anything.
 */
export function controlQuery(retriever: Retriever): string | undefined {
  const query = answered.get(retriever);
  return query === undefined ? undefined : `${cutText(query, 256)} ${Math.floor(Math.random() * 1e9)}`;
}

/** Waits between two tries, in milliseconds: the first and the longest. */
const [FIRST_WAIT, LONGEST_WAIT] = [100, 30_000];

/** An outage while it lasts. */
export class Outage {
  readonly #since = Date.now();
  readonly #started = performance.now();
  #error: HindsearchError;
  #tries = 0;

  constructor(error: HindsearchError) {
    this.#error = error;
  }

  /** How long it has lasted. */
  get milliseconds(): number {
    return performance.now() - this.#started;
  }

  /** Until the next try: as long as server or circuit breaker ask, else twice the last wait. */
  get wait(): number {
    const backOff = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#tries) * (0.5 + Math.random() / 2);
    return Math.max(FIRST_WAIT / 2, this.#error.retryAfterMs ?? backOff);
  }

  /** Takes in that another try failed. */
  goesOn(error: HindsearchError): void {
    this.#error = error;
    this.#tries++;
  }

  /** For whoever is told of it. */
  progress(waiting: number): OutageProgress {
    return { since: this.#since, reason: this.#error.message, waiting, tries: this.#tries };
  }

  /** What the searches fail with that waited in vain. */
  givenUp(): HindsearchError {
    const seconds = (this.milliseconds / 1000).toFixed(1);
    return new HindsearchError(
      "RETRIEVAL_FAILED",
      `The search service was gone for ${seconds} s, until the rollout had waited for maxOutageMs in all. The last ` +
        `reason was: ${this.#error.message}`,
      { cause: this.#error },
    );
  }
}

import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { Passage } from "./passage.js";

/** A search engine over a corpus. */
export interface Retriever {
  /**
   * Searches for many queries at once.
   *
   * @param queries - Any text: empty, very long, in any script. A query without a word finds nothing.
   * @param topK - The most passages per query, at least 1.
   * @param options - `signal` ends the call.
   * @returns One list per query, in the order of the queries; each best first, at most `topK` long.
   * @throws {@link HindsearchError} `RETRIEVAL_FAILED` if the engine cannot answer: an outage is never an empty list. Its
   * `retryable` tells a rollout whether that may pass. A retriever of one's own may throw any error, and say so by a
   * property of that name; what says nothing is taken for an outage only if the retriever has found something before.
   * `INVALID_ARGUMENT` on a wrong `topK` or a query that is no string, `ABORTED`, `DISPOSED` after `close()`.
   */
  search(queries: readonly string[], topK: number, options?: AbortOptions): Promise<Passage[][]>;

  /** What it needs back after an interruption; plain JSON without secrets. Goes into checkpoints. */
  state?(): unknown;

  /**
   * Goes on from such a state, before its first search.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if it is another retriever's; then nothing is changed.
   */
  restore?(state: unknown): void;

  /** Gives back files, sockets and memory. Later searches reject with `DISPOSED`. May be called again. */
  close?(): Promise<void>;
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
 * @internal
 */
export function checkSearch(queries: readonly string[], topK: number): void {
  if (!Number.isSafeInteger(topK) || topK < 1) {
    throw new HindsearchError("INVALID_ARGUMENT", `topK must be a whole number of at least 1, not ${topK}.`);
  }
  if (!Array.isArray(queries)) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `queries must be an array of strings, not ${typeof queries}.`,
    );
  }
  const wrong = queries.findIndex((query) => typeof query !== "string");
  if (wrong >= 0) {
    const found = typeof queries[wrong];
    throw new HindsearchError("INVALID_ARGUMENT", `queries[${wrong}] must be a string, not ${found}.`);
  }
}

/** @internal */
export function closedError(what: string): HindsearchError {
  return new HindsearchError("DISPOSED", `This ${what} is closed; open another one.`);
}

import { AttemptError } from "../../lib/network/retry.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";

/** When an {@link Interruptible} fails: behind so many calls, for so many calls, or for so many milliseconds from the first. */
export type Interruption = { after: number } & ({ failures: number } | { milliseconds: number });

/** A retriever that works for some calls, then fails for some, by default with plain errors, then works again. */
export class Interruptible implements Retriever {
  readonly #retriever: Retriever;
  readonly #interruption: Interruption;
  #calls = 0;
  #began: number | undefined;

  constructor(
    retriever: Retriever,
    interruption: Interruption,
    private readonly error: () => Error = () => new Error("service unavailable"),
  ) {
    this.#retriever = retriever;
    this.#interruption = interruption;
  }

  search: Retriever["search"] = async (...call) => {
    if (this.#isDown()) throw this.error();
    return this.#retriever.search(...call);
  };

  #isDown(): boolean {
    const { after, ...lasts } = this.#interruption;
    const failed = this.#calls++ - after;
    if (failed < 0) return false;
    this.#began ??= performance.now();
    return "failures" in lasts
      ? failed < lasts.failures
      : performance.now() - this.#began < lasts.milliseconds;
  }
}

/** Says that it is worth trying again in a minute: an outage whose first wait outlasts a test. */
export const inAMinute = () => new AttemptError("busy", { retryable: true, retryAfterMs: 60_000 });

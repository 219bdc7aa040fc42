import type { Retriever } from "../../lib/retrieval/retriever.js";

/** When an {@link Interruptible} fails: behind so many calls, for so many calls, or for so many milliseconds from the first. */
export type Interruption = { after: number } & ({ failures: number } | { milliseconds: number });

/** A retriever that works for some calls, then fails for some with plain errors, then works again. */
export class Interruptible implements Retriever {
  readonly #retriever: Retriever;
  readonly #interruption: Interruption;
  #calls = 0;
  #began: number | undefined;

  constructor(retriever: Retriever, interruption: Interruption) {
    this.#retriever = retriever;
    this.#interruption = interruption;
  }

  search: Retriever["search"] = async (...call) => {
    if (this.#isDown()) throw new Error("service unavailable");
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

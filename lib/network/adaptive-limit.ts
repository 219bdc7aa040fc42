import PQueue from "p-queue";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";

/** The least that a limit is halved to. */
const LEAST = 1;

/**
 * A limit on what is at work at the same time that finds out how much a server bears: it grows by one per round of
 * successes up to its maximum, and is halved when the server says that it is overloaded (additive increase,
 * multiplicative decrease). One overload tells many requests at once; of those that were sent before the last
 * halving, none halves again.
 *
 * @internal
 */
export class AdaptiveLimit {
  readonly #most: number;
  readonly #queue: PQueue;
  #limit: number;
  #halvedAt = Number.NEGATIVE_INFINITY;

  /** @param most - The maximum, at which it begins. */
  constructor(most: number) {
    this.#most = most;
    this.#limit = most;
    this.#queue = new PQueue({ concurrency: most });
  }

  /** How many may be at work now. */
  get limit(): number {
    return this.#queue.concurrency;
  }

  /**
   * Runs a task when it is its turn. It tells by throwing or not whether the server was up to it.
   *
   * @param isOverload - Whether an error says that the server is overloaded.
   * @throws What the task throws; `ABORTED`.
   */
  async run<T>(
    task: () => Promise<T>,
    isOverload: (error: unknown) => boolean,
    { signal }: AbortOptions,
  ): Promise<T> {
    throwIfAborted(signal);
    const turn = this.#queue.add(async () => {
      throwIfAborted(signal);
      const sentAt = performance.now();
      try {
        const result = await task();
        this.#set(this.#limit + 1 / this.#limit);
        return result;
      } catch (error) {
        if (isOverload(error) && sentAt > this.#halvedAt) {
          this.#halvedAt = performance.now();
          this.#set(this.#limit / 2);
        }
        throw error;
      }
    });
    return abortable(turn, signal);
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#most, Math.max(LEAST, limit));
    this.#queue.concurrency = Math.floor(this.#limit);
  }
}

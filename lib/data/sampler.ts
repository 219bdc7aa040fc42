import { HindsearchError } from "../errors.js";
import type { Question } from "./question.js";
import { keyWords, philox } from "./random.js";

/** Where a sampler stands: with the same questions and seed it fixes everything that follows. */
export interface SamplerCursor {
  /** Passes over all questions that are complete, from 0. */
  epoch: number;
  /** Questions of the current pass that were handed out, 0 to size - 1. */
  position: number;
}

/** Options of {@link QuestionSampler}. */
export interface SamplerOptions {
  /** A safe integer. Default 0. */
  seed?: number;
  /** Hand the questions out in their own order in every pass. Default false: a new random order for each pass. */
  inOrder?: boolean;
}

/**
 * Hands out questions without end, pass after pass, each pass in a random order of its own.
 *
 * The order of a pass is a function of seed, pass and number of questions alone (place i is ranked by the random word
 * of counter i), so two numbers, the cursor, restore it exactly. Questions are told apart by their place: equal
 * texts are two questions.
 */
export class QuestionSampler {
  readonly #questions: readonly Question[];
  readonly #seed: number;
  readonly #inOrder: boolean;
  #epoch = 0;
  #position = 0;
  #order: Uint32Array;

  /**
   * @param questions - At least one; the list is copied.
   * @param options - Seed and order.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an empty list or a seed that is not a safe integer.
   */
  constructor(questions: readonly Question[], options: SamplerOptions = {}) {
    const { seed = 0, inOrder = false } = options;
    if (questions.length === 0) {
      throw new HindsearchError("INVALID_ARGUMENT", "A sampler needs at least one question, got none.");
    }
    this.#questions = [...questions];
    this.#seed = seed;
    this.#inOrder = inOrder;
    this.#order = this.#orderOf(0);
  }

  /** Number of questions in a pass. */
  get size(): number {
    return this.#questions.length;
  }

  /** What to save, and to hand to {@link restore} later. */
  get cursor(): SamplerCursor {
    return { epoch: this.#epoch, position: this.#position };
  }

  /**
   * Continues as the sampler did whose cursor this is, given the same questions and seed.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a cursor that no sampler of this size can have.
   */
  restore({ epoch, position }: SamplerCursor): void {
    const valid = Number.isSafeInteger(epoch) && epoch >= 0 && Number.isInteger(position) && position >= 0;
    if (!valid || position >= this.size) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `Cursor {epoch: ${epoch}, position: ${position}} does not fit ${this.size} questions: epoch must be an ` +
          `integer from 0, position an integer from 0 to ${this.size - 1}. Was it saved with other questions?`,
      );
    }
    this.#epoch = epoch;
    this.#position = position;
    this.#order = this.#orderOf(epoch);
  }

  /**
   * The next `count` questions. They may run over the end of a pass into the next one.
   *
   * @param count - A positive integer; may be more than there are questions, which then repeat.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for any other count.
   */
  next(count: number): Question[] {
    if (!Number.isSafeInteger(count) || count < 1) {
      throw new HindsearchError("INVALID_ARGUMENT", `count must be a positive integer, got ${count}.`);
    }
    const drawn: Question[] = [];
    while (drawn.length < count) {
      drawn.push(this.#questions[this.#order[this.#position] as number] as Question);
      this.#position++;
      if (this.#position < this.size) continue;
      this.#position = 0;
      this.#epoch++;
      this.#order = this.#orderOf(this.#epoch);
    }
    return drawn;
  }

  #orderOf(epoch: number): Uint32Array {
    const order = Uint32Array.from({ length: this.size }, (_, i) => i);
    // Checked in both modes: a bad seed must not wait for another option to show itself.
    const key = keyWords(["question order", this.#seed, epoch]);
    if (this.#inOrder) return order;
    const ranks = Float64Array.from(order, (i) => {
      const [low, high] = philox(key, [i, 0, 0, 0]);
      return high * 2 ** 21 + (low >>> 11);
    });
    return order.sort((a, b) => (ranks[a] as number) - (ranks[b] as number) || a - b);
  }
}

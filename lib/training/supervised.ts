import { type AbortOptions, throwIfAborted } from "../abort.js";
import { Random } from "../data/random.js";
import { HindsearchError } from "../errors.js";
import type { Tokens } from "../policy/batch.js";
import type { Policy } from "../policy/policy.js";
import type { MemoryOptions, StepOptions } from "../policy/policy-options.js";
import { requireTraining, supervisedEstimate } from "./memory.js";
import { type LearningRateSchedule, learningRateAt } from "./schedule.js";

/** A text to imitate. */
export interface SupervisedExample {
  /** Prompt and response. */
  tokens: Tokens;
  /**
   * Per token how much it counts as a target; 0 leaves it out. The first token must be 0, since nothing predicts it.
   * Usually 0 on the prompt and 1 on the response.
   */
  weights: Float32Array | readonly number[];
}

/** Options of {@link SupervisedTrainer}. */
export interface SupervisedOptions extends AbortOptions, MemoryOptions {
  /** Is changed in place. */
  policy: Policy;
  /**
   * A fixed set, gone through pass after pass in a new random order each, or a function that makes the batch of a step
   * (as a function of the step alone, if a run is to be repeatable).
   */
  examples:
    | readonly SupervisedExample[]
    | ((step: number) => readonly SupervisedExample[] | Promise<readonly SupervisedExample[]>);
  /** Optimizer steps. */
  steps: number;
  /** Examples per step, of a fixed set. Default 32. */
  batchSize?: number;
  /** By optimizer steps. */
  learningRate: LearningRateSchedule;
  /** AdamW. Default: betas 0.9 / 0.999, weight decay 0.01, gradient norm 1. */
  optimizer?: Omit<StepOptions, "learningRate">;
  /** Of the order of a fixed set. Default 0. */
  seed?: number;
  /** The step to start with, for a policy that was trained up to there. Default 0. */
  startStep?: number;
  /**
   * Tokens that are run together. Examples are packed without padding, so their lengths cost nothing, and loss and
   * gradient do not depend on it beyond rounding. Default: the engine's.
   */
  microBatchTokens?: number;
  /** Keep one tensor per layer and compute the rest again: less memory, a third more time. Default true. */
  checkpointActivations?: boolean;
  /** Updates in a row that a gradient that is not finite may cost; one more ends the run. Default 3. */
  maxSkippedUpdates?: number;
}

/** What the trainer yields for each step. */
export interface SupervisedStepResult {
  /** Steps done before this one. */
  step: number;
  /** Weighted mean of `-log p` over the targets of the batch, before the update. */
  loss: number;
  /** Tokens of the batch, targets or not. */
  tokens: number;
  /** Before clipping. */
  gradientNorm: number;
  /** Of this step. */
  learningRate: number;
  /** The gradient was not finite; the weights are as before. */
  skipped: boolean;
  /** Wall-clock time. */
  milliseconds: number;
}

/**
 * Supervised fine-tuning by token cross-entropy, e.g. the warm start before reinforcement learning. Iterated over, one
 * result per optimizer step.
 *
 * @example
 * ```ts
 * const learningRate = { kind: "cosine", learningRate: 1e-5, totalSteps: 100 } as const;
 * for await (const { loss } of new SupervisedTrainer({ policy, examples, steps: 100, learningRate })) console.log(loss);
 * ```
 */
export class SupervisedTrainer implements AsyncIterable<SupervisedStepResult> {
  readonly #options: SupervisedOptions;
  /** Of the pass that was used last. */
  #order: { pass: number; examples: SupervisedExample[] } | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` for counts that are none, a schedule out of range, no example. */
  constructor(options: SupervisedOptions) {
    const { steps, batchSize = 32, startStep = 0, learningRate, examples } = options;
    for (const [name, value, least] of [
      ["steps", steps, 1],
      ["batchSize", batchSize, 1],
      ["startStep", startStep, 0],
    ] as const) {
      if (!Number.isSafeInteger(value) || value < least) {
        throw invalid(`${name} is ${value}, expected an integer of at least ${least}`);
      }
    }
    if (typeof examples !== "function" && examples.length === 0) throw invalid("there is no example");
    learningRateAt(learningRate, steps);
    this.#options = options;
  }

  /** Runs the steps. @throws {@link HindsearchError} `ABORTED`, `NON_FINITE`, `INVALID_ARGUMENT` for a bad example, `OUT_OF_MEMORY`, before anything is allocated if it is foreseen. */
  async *[Symbol.asyncIterator](): AsyncGenerator<SupervisedStepResult, void> {
    const { policy, steps, startStep = 0, signal, microBatchTokens, maxSkippedUpdates = 3 } = this.#options;
    const { checkpointActivations = true } = this.#options;
    let skippedInARow = 0;
    let upcoming: Promise<readonly SupervisedExample[]> | undefined;
    for (let step = startStep; step < steps; step++) {
      throwIfAborted(signal);
      const started = performance.now();
      const batch = [...(await (upcoming ?? this.#batch(step)))];
      if (step === startStep) await this.#requireMemory(batch);
      const learningRate = learningRateAt(this.#options.learningRate, step);
      const pass = policy.forwardBackward(
        batch,
        { crossEntropy: {} },
        { checkpointActivations, ...(microBatchTokens === undefined ? {} : { microBatchTokens }), signal },
      );
      // The next batch is made while the engine computes; an error in it belongs to the next step.
      upcoming = step + 1 < steps ? this.#batch(step + 1) : undefined;
      upcoming?.catch(() => {});
      const { crossEntropy: loss } = await pass;
      const { gradientNorm, skipped } = await policy.step({ ...this.#options.optimizer, learningRate });
      skippedInARow = skipped ? skippedInARow + 1 : 0;
      if (skippedInARow > maxSkippedUpdates) {
        throw new HindsearchError(
          "NON_FINITE",
          `The gradient was not finite ${skippedInARow} times in a row, up to step ${step}. The weights are those of ` +
            "the last good update. Lower the learning rate, or look at the examples of these steps.",
        );
      }
      const tokens = batch.reduce((sum, example) => sum + example.tokens.length, 0);
      yield {
        step,
        loss,
        tokens,
        gradientNorm,
        learningRate,
        skipped,
        milliseconds: performance.now() - started,
      };
    }
  }

  /** The first batch of a function stands for all. */
  #requireMemory(batch: readonly SupervisedExample[]): Promise<void> {
    const { policy, examples, microBatchTokens, checkpointActivations, memoryLimit } = this.#options;
    const longest = typeof examples === "function" ? batch : examples;
    const estimate = supervisedEstimate(policy, {
      longestSequence: longest.reduce((most, { tokens }) => Math.max(most, tokens.length), 1),
      sequences: Math.max(1, batch.length),
      ...(microBatchTokens !== undefined && { microBatchTokens }),
      ...(checkpointActivations !== undefined && { checkpointActivations }),
    });
    return requireTraining(policy, estimate, memoryLimit);
  }

  async #batch(step: number): Promise<readonly SupervisedExample[]> {
    const { examples, batchSize = 32, seed = 0 } = this.#options;
    if (typeof examples === "function") return examples(step);
    return Array.from({ length: batchSize }, (_, i) => {
      const place = step * batchSize + i;
      const pass = Math.floor(place / examples.length);
      if (this.#order?.pass !== pass) {
        this.#order = { pass, examples: new Random("supervised order", seed, pass).shuffle(examples) };
      }
      return this.#order.examples[place % examples.length] as SupervisedExample;
    });
  }
}

function invalid(what: string): HindsearchError {
  return new HindsearchError("INVALID_ARGUMENT", `Supervised training: ${what}.`);
}

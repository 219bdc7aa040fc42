import { HindsearchError } from "../errors.js";

/** A learning-rate schedule as plain data. */
export interface LearningRateSchedule {
  /** How the rate falls after the warm-up. */
  kind: "constant" | "linear" | "cosine";
  /** The highest rate, reached at the end of the warm-up. */
  learningRate: number;
  /** Optimizer steps over which the rate rises linearly from 0. Default 0. */
  warmupSteps?: number;
  /** Optimizer steps at which `linear` and `cosine` reach their floor. Not used by `constant`. */
  totalSteps?: number;
  /** The floor as a share of `learningRate`. Default 0. */
  minimumRatio?: number;
}

/**
 * The learning rate of an optimizer step. With `p = (step - warmup) / (total - warmup)` and floor m:
 *
 * - warm-up: `rate * step / warmup`, so the first optimizer step of a warm-up has rate 0
 * - `linear`: `rate * (m + (1 - m) * (1 - p))`, and m from `total` on even if the warm-up lasts until then
 * - `cosine`: `rate * (m + (1 - m) * (1 + cos(pi * p)) / 2)`
 *
 * These are the definitions of transformers (`linear`, `cosine`, `cosine_with_min_lr`, `constant_with_warmup`) and of
 * verl's defaults, with one difference: behind `totalSteps` the rate stays at the floor, where a cosine of those
 * rises again. Not offered: warm-ups that start at `rate / warmup` or at a share of the rate, restarts, polynomial,
 * inverse square root and warm-up-stable-decay schedules.
 *
 * @param schedule - The schedule.
 * @param step - Optimizer steps taken before this one, from 0.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for values outside their range.
 */
export function learningRateAt(schedule: LearningRateSchedule, step: number): number {
  const { kind, learningRate, warmupSteps = 0, totalSteps, minimumRatio = 0 } = schedule;
  require(["constant", "linear", "cosine"].includes(kind), "kind", kind, "constant, linear or cosine");
  require(learningRate >= 0 && Number.isFinite(learningRate), "learningRate", learningRate, "a number >= 0");
  require(Number.isInteger(warmupSteps) && warmupSteps >= 0, "warmupSteps", warmupSteps, "an integer >= 0");
  require(minimumRatio >= 0 && minimumRatio <= 1, "minimumRatio", minimumRatio, "a number in [0, 1]");
  if (step < warmupSteps) return (learningRate * step) / warmupSteps;
  if (kind === "constant") return learningRate;
  require(Number.isInteger(totalSteps) && Number(totalSteps) > 0, "totalSteps", totalSteps, "an integer > 0");
  const left = Math.max(0, Number(totalSteps) - step);
  const span = Math.max(1, Number(totalSteps) - warmupSteps);
  const progress = Math.min(1, (step - warmupSteps) / span);
  const height = kind === "linear" ? left / span : (1 + Math.cos(Math.PI * progress)) / 2;
  return learningRate * (minimumRatio + (1 - minimumRatio) * height);
}

/** How the weight of the distillation term goes with the training steps, as plain data. */
export type WeightSchedule =
  /** The same weight always: HindSearch's own. */
  | {
      /** What it does with the weight. */
      kind: "constant";
    }
  /** 0 for the first `steps` training steps, the full weight from then on (SD-Search, arXiv:2605.18299). */
  | {
      /** What it does with the weight. */
      kind: "delayed";
      /** Training steps. */
      steps: number;
    }
  /** Rises linearly from 0 to the full weight over `steps` training steps. */
  | {
      /** What it does with the weight. */
      kind: "warmup";
      /** Training steps. */
      steps: number;
    }
  /** Falls linearly from the full weight to 0 over `steps` training steps (AHEAD, arXiv:2608.24114). */
  | {
      /** What it does with the weight. */
      kind: "linear-decay";
      /** Training steps. */
      steps: number;
    };

/**
 * The factor of a weight in a training step, in [0, 1].
 *
 * @param schedule - The schedule.
 * @param step - Training steps done before this one, from 0.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if `steps` is no positive integer.
 */
export function weightFactorAt(schedule: WeightSchedule, step: number): number {
  if (schedule.kind === "constant") return 1;
  const { kind, steps } = schedule;
  require(["delayed", "warmup", "linear-decay"].includes(
    kind,
  ), "kind", kind, "constant, delayed, warmup or linear-decay");
  require(Number.isInteger(steps) && steps > 0, "steps", steps, "an integer > 0");
  if (kind === "delayed") return step < steps ? 0 : 1;
  const progress = Math.min(1, step / steps);
  return kind === "warmup" ? progress : 1 - progress;
}

function require(ok: boolean, name: string, found: unknown, expected: string): void {
  if (ok) return;
  throw new HindsearchError("INVALID_ARGUMENT", `Schedule: ${name} is ${found}, expected ${expected}.`);
}

import { scopeMask, type TokenScope } from "../agent/masks.js";
import { Pacer } from "../agent/pacer.js";
import type { TrainingSample } from "./samples.js";

/** The gap `teacher - student` log-prob over the tokens of the distillation term; numbers are `null` without tokens. */
export interface GapHealth {
  /** Tokens measured. */
  tokens: number;
  /** Mean gap, nats. */
  mean: number | null;
  /** Median gap. */
  median: number | null;
  /** Gap that 95 % of the tokens are below or at. */
  p95: number | null;
  /** Share of tokens whose gap is at the lower clamp or below: no weight. */
  shareBelow: number | null;
  /** Share strictly between the clamps. */
  shareInside: number | null;
  /** Share at the upper clamp or above: full weight. */
  shareSaturated: number | null;
  /** Share with an absolute gap above 0.05: where the hint changes anything. */
  shareMoved: number | null;
  /** Mean of the clamped gap: the weight of the term. */
  meanWeight: number | null;
  /** Mean log-prob of the teacher. */
  teacherLogProb: number | null;
  /** Mean log-prob of the student when it sampled. */
  studentLogProb: number | null;
}

/**
 * Measures the gap.
 *
 * @param samples - Samples with the teacher's log-probs to measure, which may be those of a control.
 * @param scope - Tokens of the term.
 * @param clamp - Bounds of the weight.
 */
export async function gapHealth(
  samples: Iterable<[TrainingSample, Float32Array]>,
  scope: TokenScope,
  clamp: readonly [low: number, high: number],
): Promise<GapHealth> {
  const pacer = new Pacer();
  const gaps: number[] = [];
  const [low, high] = clamp;
  let teacherSum = 0;
  let studentSum = 0;
  let weightSum = 0;
  for (const [{ trajectory }, teacher] of samples) {
    await pacer.pause();
    const mask = scopeMask(trajectory, scope);
    for (const [t, bit] of mask.entries()) {
      if (bit === 0) continue;
      const gap = (teacher[t] as number) - (trajectory.logProbs[t] as number);
      gaps.push(gap);
      teacherSum += teacher[t] as number;
      studentSum += trajectory.logProbs[t] as number;
      weightSum += Math.min(Math.max(gap, low), high);
    }
  }
  const { length: tokens } = gaps;
  const sorted = Float64Array.from(gaps).sort();
  const share = (test: (gap: number) => boolean) => ratio(gaps.filter(test).length, tokens);
  return {
    tokens,
    mean: ratio(teacherSum - studentSum, tokens),
    median: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
    shareBelow: share((gap) => gap <= low),
    shareInside: share((gap) => gap > low && gap < high),
    shareSaturated: share((gap) => gap >= high),
    shareMoved: share((gap) => Math.abs(gap) > 0.05),
    meanWeight: ratio(weightSum, tokens),
    teacherLogProb: ratio(teacherSum, tokens),
    studentLogProb: ratio(studentSum, tokens),
  };
}

/** `a / b`, or `null` if b is 0: a number over nothing is none. */
export function ratio(a: number, b: number): number | null {
  return b === 0 ? null : a / b;
}

/** The smallest value that at least a share q of the sorted values does not exceed; `null` without values. */
export function quantile(sorted: ArrayLike<number>, q: number): number | null {
  return sorted.length === 0 ? null : (sorted[Math.ceil(q * sorted.length) - 1] ?? null);
}

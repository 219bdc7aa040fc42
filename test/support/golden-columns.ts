import type { GoldenBatch, GoldenSequence } from "./golden-batch.js";

export type Column = (sequence: GoldenSequence) => number[];

/** A column from the tokens of one sequence. */
export const each =
  (value: (sequence: GoldenSequence, t: number) => number): Column =>
  (sequence) =>
    sequence.tokens.map((_, t) => value(sequence, t));

export const at = (column: number[], t: number) => column[t] as number;
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
export const countTokens = (batch: GoldenBatch, column: "response" | "distill") =>
  sum(batch.sequences.flatMap((sequence) => sequence[column]));
const clamp = (value: number, bound: number) => Math.max(-bound, Math.min(bound, value));

/** Sum of a quantity over the response tokens of a sequence. */
export const overResponse = (sequence: GoldenSequence, value: (t: number) => number) =>
  sum(sequence.tokens.map((_, t) => (at(sequence.response, t) ? value(t) : 0)));

// Losses that are GRPO with a detached weight on every token are GRPO with other advantages: the loss is homogeneous
// in A, so w * L(A) = L(w * A) for w > 0.

const importance = ({ old, rollout }: GoldenSequence, t: number) => Math.exp(at(old, t) - at(rollout, t));
export const truncated = each((s, t) => at(s.advantage, t) * Math.min(importance(s, t), 2));
export const iced = each((s, t) => {
  const w = importance(s, t);
  return w >= 0.5 && w <= 2 ? at(s.advantage, t) * w : 0;
});
export const ofSequence =
  (limit: (w: number) => number): Column =>
  (s) => {
    const w = limit(Math.exp(overResponse(s, (t) => at(s.old, t) - at(s.rollout, t))));
    return s.advantage.map((advantage) => advantage * w);
  };

export function batchNormalised(batch: GoldenBatch): Column {
  const mean =
    sum(batch.sequences.map((s) => overResponse(s, (t) => Math.min(importance(s, t), 2)))) /
    countTokens(batch, "response");
  return (s) => truncated(s).map((advantage) => advantage / mean);
}

export const offPolicyMasked =
  ({ offPolicyThreshold }: GoldenBatch): Column =>
  (s) => {
    const gap = overResponse(s, (t) => at(s.old, t) - at(s.student, t));
    const length = overResponse(s, () => 1);
    return s.advantage.map((a) => (a < 0 && gap > offPolicyThreshold * length ? 0 : a));
  };

/** A * scale + coefficient * (teacher - old) on distilled tokens. */
export const plusTeacherGap = (scale: number, coefficient: number, bound: number): Column =>
  each((s, t) => {
    const gap = at(s.distill, t) ? at(s.teacher, t) - at(s.old, t) : 0;
    return scale * at(s.advantage, t) + coefficient * clamp(gap, bound);
  });

export const currentTeacherGap = (bound: number): Column =>
  each((s, t) => (at(s.distill, t) ? clamp(at(s.teacher, t) - at(s.student, t), bound) : 0));

/** a = teacher - rollout, weighted by the share of |a| that is still to come in its sequence. */
export const importanceWeighted: Column = (s) => {
  const gaps = s.tokens.map((_, t) => (at(s.distill, t) ? at(s.teacher, t) - at(s.rollout, t) : 0));
  const total = overResponse(s, (t) => Math.abs(at(gaps, t)));
  let before = 0;
  return gaps.map((gap) => {
    const weighted = gap === 0 ? 0 : (2 - before / total) * gap;
    before += Math.abs(gap);
    return weighted;
  });
};

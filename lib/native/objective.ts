/**
 * How per-token losses become one number. N: tokens in the mask; B: sequences with at least one of them.
 *
 * - `token-mean`: sum / N (verl's default, DAPO).
 * - `sequence-mean-token-mean`: mean over the B sequences of their token mean (the original GRPO).
 * - `sequence-sum`: sum / B.
 * - `fixed-length`: sum / (all sequences of the batch * `fixedLength`) (Dr. GRPO, arXiv:2503.20783).
 */
export type Aggregation = "token-mean" | "sequence-mean-token-mean" | "sequence-sum" | "fixed-length";

/**
 * The clipped policy gradient: `-min(r A, clip(r, 1 - clipLow, 1 + clipHigh) A)` with
 * `r = exp(logProb - oldLogProb)`, over the policy mask. The log ratio is clamped to +-20, without gradient beyond.
 * Needs the columns `policyMask`, `oldLogProbs` and `advantages`.
 */
export interface PolicyTerm {
  /** Factor of the term. @defaultValue 1 */
  weight?: number;
  /** Lower clip range of the ratio, 0 to 1. @defaultValue 0.2 */
  clipLow?: number;
  /** Upper clip range; larger than `clipLow` is DAPO's clip-higher, infinite is off. @defaultValue 0.2 */
  clipHigh?: number;
  /** For negative advantages the loss is at most `-dualClip * A` (arXiv:1912.09729); above 1. @defaultValue off */
  dualClip?: number;
  /** @defaultValue `"token-mean"` */
  aggregation?: Aggregation;
  /** Tokens that `"fixed-length"` divides by; needed by it. */
  fixedLength?: number;
}

/**
 * KL divergence from the frozen reference, estimated on the sampled tokens over the policy mask and aggregated like
 * the policy term (token mean without one). With `d = logProb - referenceLogProb`:
 *
 * - `k1`: `d`. Unbiased as a metric; as a loss its gradient is that of the log-likelihood, not of the divergence.
 * - `k2`: `d^2 / 2`.
 * - `k3`: `exp(-d) + d - 1`; above `-d = 20` continued by its tangent, so that the gradient stays bounded.
 *
 * Needs the columns `policyMask` and `referenceLogProbs`.
 */
export interface KlTerm {
  /** Factor of the term. @defaultValue 0.001 */
  weight?: number;
  /** @defaultValue `"k3"` */
  estimator?: "k1" | "k2" | "k3";
  /**
   * Cuts the value of `k3` off here, without gradient above (verl and Search-R1: 10). That changes the estimator: it
   * stops pulling just where the policy has gone furthest. @defaultValue off
   */
  maxValue?: number;
}

/**
 * What the HindSearch term divides its sum by.
 *
 * - `distill-tokens`: tokens in the distillation mask.
 * - `policy-tokens`: tokens in the policy mask.
 * - `sequences`: mean over the sequences with a distilled token of their token mean.
 * - `fixed`: {@link DistillTerm.fixed}.
 */
export type DistillNormalizer = "distill-tokens" | "policy-tokens" | "sequences" | "fixed";

/**
 * The HindSearch term (arXiv:2608.01597): `-w * logProb` with `w = clamp(teacherLogProb - logProb, low, high)`, over
 * the distillation mask. The teacher is the frozen initial model reading the critique as a hint. Needs the columns
 * `distillMask` and `teacherLogProbs`; where a `policyMask` is given, it must contain the distillation mask.
 */
export interface DistillTerm {
  /** Factor of the term. @defaultValue 0.01 */
  weight?: number;
  /** Bounds of `w`; infinite ones are off. @defaultValue `[0, 1]` */
  clamp?: readonly [low: number, high: number];
  /** No gradient through `w`. @defaultValue true */
  detach?: boolean;
  /** @defaultValue `"distill-tokens"` */
  normalizer?: DistillNormalizer;
  /** What normalizer `"fixed"` divides by; needed by it, above 0. */
  fixed?: number;
}

/**
 * Token cross-entropy: `-sum(weight * logProb) / sum(weight)`. Needs the column `weights`; tokens of weight 0 are not
 * scored.
 */
export interface CrossEntropyTerm {
  /** Factor of the term. @defaultValue 1 */
  weight?: number;
}

/**
 * Counts that the terms of a loss are divided by. When a batch is computed in several calls (to save memory, or on
 * several machines), each gets the counts of the whole, and loss and gradient come out as of one call.
 */
export interface BatchTotals {
  /** Tokens in the policy mask. */
  policyTokens: number;
  /** Sequences with at least one of them. */
  policySequences: number;
  /** All sequences. */
  sequences: number;
  /** Tokens in the distillation mask. */
  distillTokens: number;
  /** Sequences with at least one of them. */
  distillSequences: number;
  /** Sum of the cross-entropy weights. */
  weight: number;
}

/** Mirrors `native/objective/objective.h`; terms left out are off. */
export interface NativeObjective {
  policy?: Required<PolicyTerm>;
  kl?: Required<KlTerm>;
  distill?: Required<Omit<DistillTerm, "clamp">> & { clampLow: number; clampHigh: number };
  crossEntropy?: Required<CrossEntropyTerm>;
  policyMask?: Uint8Array;
  distillMask?: Uint8Array;
  oldLogProbs?: Float32Array;
  referenceLogProbs?: Float32Array;
  teacherLogProbs?: Float32Array;
  advantages?: Float32Array;
  weights?: Float32Array;
  /** Counts of the global batch when this call is one part of it; left out: counted here. */
  totals?: BatchTotals;
}

/** What an objective comes to over a batch. Losses of the terms are before their weights. */
export interface ObjectiveMetrics {
  /** The sum of all terms, each times its weight. */
  loss: number;
  /** The clipped policy gradient. */
  policyLoss: number;
  /** Value of the KL estimator, aggregated like the policy term. */
  klLoss: number;
  /** The HindSearch term. */
  distillLoss: number;
  /** Token cross-entropy. */
  crossEntropy: number;
  /** Policy tokens of this call, whatever the totals say. */
  policyTokens: number;
  /** Distilled tokens of this call. */
  distillTokens: number;
  /** Share of the policy tokens with A < 0 and a ratio below `1 - clipLow`. */
  clipFractionLow: number;
  /** Share of the policy tokens with A > 0 and a ratio above `1 + clipHigh`. */
  clipFractionHigh: number;
  /** Share of the policy tokens that the dual clip bounds. */
  dualClipFraction: number;
  /** Mean of the ratio to the old log-probs. */
  ratioMean: number;
  /** Its maximum. */
  ratioMax: number;
  /** Largest difference between log-prob and old log-prob. */
  logRatioMaxAbs: number;
  /** Tokens whose log ratio was beyond +-20. */
  ratioClamped: number;
  /** Tokens whose `k3` was continued by its tangent or cut off. */
  klClamped: number;
}

/** The metrics, and log-probs aligned with the packed tokens; 0 where not needed. */
export interface NativeObjectiveResult extends ObjectiveMetrics {
  logProbs: Float32Array;
}

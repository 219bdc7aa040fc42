import type { NativeObjective } from "../native/addon.js";

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
 * What to minimise: the sum of the terms given, each weighted. A term left out is off; `{}` is a term with its
 * defaults. GRPO is `{ policy: {} }`, HindSearch `{ policy: {}, kl: {}, distill: {} }`, supervised fine-tuning
 * `{ crossEntropy: {} }`.
 */
export interface Objective {
  /** Clipped policy gradient. */
  policy?: PolicyTerm;
  /** Divergence from the reference. */
  kl?: KlTerm;
  /** The HindSearch term. */
  distill?: DistillTerm;
  /** Token cross-entropy. */
  crossEntropy?: CrossEntropyTerm;
}

/** The terms of an objective, with the defaults filled in. */
type NativeTerms = Pick<NativeObjective, "policy" | "kl" | "distill" | "crossEntropy">;

// The engine counts in float32.
const LARGEST = 3.4028234663852886e38;

/**
 * The engine's form of an objective.
 *
 * @internal
 */
export function nativeTerms({ policy, kl, distill, crossEntropy }: Objective): NativeTerms {
  const terms: NativeTerms = {};
  if (policy) {
    terms.policy = {
      weight: policy.weight ?? 1,
      clipLow: policy.clipLow ?? 0.2,
      clipHigh: Math.min(policy.clipHigh ?? 0.2, LARGEST),
      dualClip: policy.dualClip ?? 0,
      aggregation: policy.aggregation ?? "token-mean",
      fixedLength: policy.fixedLength ?? 0,
    };
  }
  if (kl) {
    terms.kl = {
      weight: kl.weight ?? 0.001,
      estimator: kl.estimator ?? "k3",
      maxValue: kl.maxValue ?? 0,
    };
  }
  if (distill) {
    const [low, high] = distill.clamp ?? [0, 1];
    terms.distill = {
      weight: distill.weight ?? 0.01,
      clampLow: Math.max(low, -LARGEST),
      clampHigh: Math.min(high, LARGEST),
      detach: distill.detach ?? true,
      normalizer: distill.normalizer ?? "distill-tokens",
      fixed: distill.fixed ?? 0,
    };
  }
  if (crossEntropy) terms.crossEntropy = { weight: crossEntropy.weight ?? 1 };
  return terms;
}

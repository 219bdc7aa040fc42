import type {
  CrossEntropyTerm,
  DistillTerm,
  KlTerm,
  NativeObjective,
  PolicyTerm,
} from "../native/objective.js";

export type {
  Aggregation,
  CrossEntropyTerm,
  DistillNormalizer,
  DistillTerm,
  KlTerm,
  PolicyTerm,
} from "../native/objective.js";

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

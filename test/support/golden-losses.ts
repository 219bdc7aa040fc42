import { type BatchTotals, batchTotals, type TrainingSequence } from "../../lib/policy/batch.js";
import type { Aggregation, Objective } from "../../lib/policy/objective.js";
import type { GoldenBatch } from "./golden-batch.js";
import {
  at,
  batchNormalised,
  type Column,
  countTokens,
  currentTeacherGap,
  each,
  iced,
  importanceWeighted,
  offPolicyMasked,
  ofSequence,
  overResponse,
  plusTeacherGap,
  truncated,
} from "./golden-columns.js";

/** What `forwardBackward` has to be called with to compute a golden loss. */
export interface GoldenLoss {
  batch: TrainingSequence[];
  objective: Objective;
  totals?: BatchTotals;
  temperature?: number;
}

interface PolicyOptions {
  clip?: [low: number, high: number];
  dualClip?: number;
  aggregation?: Aggregation;
  fixedLength?: number;
  mask?: "response" | "distill";
  old?: "old" | "oldAtTemperature" | "rollout";
  advantages?: Column;
  kl?: Objective["kl"];
  klTo?: "reference" | "teacher";
  totals?: Partial<BatchTotals>;
  temperature?: number;
  weight?: number;
}

const VERL = { clip: [0.2, 0.28], dualClip: 3 } satisfies PolicyOptions;
const TRL = { clip: [0.2, 0.28] } satisfies PolicyOptions;

function policyLoss(batch: GoldenBatch, options: PolicyOptions): GoldenLoss {
  const { clip = [0.2, 0.2], dualClip, aggregation = "token-mean", fixedLength, kl, weight } = options;
  const { mask = "response", old = "old", klTo = "reference", temperature } = options;
  const advantages = options.advantages ?? (({ advantage }) => advantage);
  const sequences = batch.sequences.map((sequence) => ({
    tokens: sequence.tokens,
    policyMask: sequence[mask],
    oldLogProbs: sequence[old],
    referenceLogProbs: sequence[klTo],
    advantages: advantages(sequence),
  }));
  const policy = {
    clipLow: clip[0],
    clipHigh: clip[1],
    aggregation,
    ...(weight !== undefined && { weight }),
    ...(dualClip !== undefined && { dualClip }),
    ...(fixedLength !== undefined && { fixedLength }),
  };
  return {
    batch: sequences,
    objective: { policy, ...(kl && { kl }) },
    ...(options.totals && { totals: { ...batchTotals(sequences), ...options.totals } }),
    ...(temperature !== undefined && { temperature }),
  };
}

function crossEntropy(batch: GoldenBatch, weights: Column, weight?: number): GoldenLoss {
  const sequences = batch.sequences.map((sequence) => ({
    tokens: sequence.tokens,
    weights: weights(sequence),
  }));
  return {
    batch: sequences,
    objective: { crossEntropy: {} },
    ...(weight !== undefined && { totals: { ...batchTotals(sequences), weight } }),
  };
}

function sampledTokenDistillation(batch: GoldenBatch): GoldenLoss {
  const sequences = batch.sequences.map((sequence) => ({
    tokens: sequence.tokens,
    distillMask: sequence.distill,
    teacherLogProbs: sequence.teacher,
  }));
  return {
    batch: sequences,
    objective: {
      distill: {
        weight: 1,
        clamp: [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
        normalizer: "sequences",
      },
    },
    totals: { ...batchTotals(sequences), distillSequences: sequences.length },
  };
}

const k = (estimator: "k1" | "k2" | "k3", weight = 0.1, maxValue?: number) => ({
  weight,
  estimator,
  ...(maxValue !== undefined && { maxValue }),
});
const all = ({ sequences }: GoldenBatch) => sequences.length;
const nonEmpty = ({ sequences }: GoldenBatch) =>
  sequences.filter(({ response }) => response.includes(1)).length;
const sequenceMean = "sequence-mean-token-mean";
const responseMask: Column = ({ response }) => response;

/** Every golden loss that the objective can express, by its id. */
export const goldenLosses: Record<string, (batch: GoldenBatch) => GoldenLoss> = {
  "sft/response_token_mean": (b) => crossEntropy(b, responseMask),
  "sft/num_items": (b) => crossEntropy(b, responseMask, 64),
  "sft/all_tokens": (b) =>
    crossEntropy(
      b,
      each((_, t) => (t === 0 ? 0 : 1)),
    ),
  "sft/seq_mean_token_mean": (b) =>
    crossEntropy(
      b,
      each((s, t) => at(s.response, t) && 1 / overResponse(s, () => 1)),
    ),
  "gpg/verl": (b) =>
    crossEntropy(
      b,
      each((s, t) => at(s.response, t) * at(s.advantage, t)),
      countTokens(b, "response"),
    ),

  "grpo/verl/token-mean": (b) => policyLoss(b, VERL),
  "grpo/verl/seq-mean-token-mean": (b) => policyLoss(b, { ...VERL, aggregation: sequenceMean }),
  "grpo/verl/seq-mean-token-sum": (b) => policyLoss(b, { ...VERL, aggregation: "sequence-sum" }),
  "grpo/verl/seq-mean-token-sum-norm": (b) =>
    policyLoss(b, {
      ...VERL,
      aggregation: "fixed-length",
      fixedLength: b.paddedWidth,
      totals: { sequences: nonEmpty(b) },
    }),
  "grpo/verl/seq-mean-token-sum-norm-const": (b) =>
    policyLoss(b, {
      ...VERL,
      aggregation: "fixed-length",
      fixedLength: 40,
      totals: { sequences: nonEmpty(b) },
    }),
  "grpo/verl/token-sum": (b) => policyLoss(b, { ...VERL, totals: { policyTokens: 1 } }),
  "grpo/verl/symmetric-nodual": (b) => policyLoss(b, {}),
  "grpo/verl/temperature": (b) => policyLoss(b, { ...VERL, old: "oldAtTemperature", temperature: 0.7 }),
  "grpo/verl/kl-k1": (b) => policyLoss(b, { ...VERL, kl: k("k1") }),
  "grpo/verl/kl-k2": (b) => policyLoss(b, { ...VERL, kl: k("k2") }),
  "grpo/verl/kl-k3": (b) => policyLoss(b, { ...VERL, kl: k("k3", 0.1, 10) }),
  "grpo/verl/kl-k3-seq-mean-token-mean": (b) =>
    policyLoss(b, { ...VERL, aggregation: sequenceMean, kl: k("k3", 0.1, 10) }),
  "drgrpo/verl": (b) =>
    policyLoss(b, {
      ...VERL,
      advantages: (s) => s.advantageNoStd,
      aggregation: "fixed-length",
      fixedLength: 40,
      totals: { sequences: nonEmpty(b) },
    }),
  "tis/verl/token": (b) => policyLoss(b, { ...VERL, advantages: truncated }),
  "tis/verl/token-batchnorm": (b) => policyLoss(b, { ...VERL, advantages: batchNormalised(b) }),
  "tis/verl/sequence": (b) => policyLoss(b, { ...VERL, advantages: ofSequence((w) => Math.min(w, 2)) }),
  "tis/verl/icepop": (b) => policyLoss(b, { ...VERL, advantages: iced }),

  "grpo/trl/grpo": (b) =>
    policyLoss(b, { ...TRL, aggregation: sequenceMean, totals: { policySequences: all(b) } }),
  "grpo/trl/bnpo": (b) => policyLoss(b, TRL),
  "grpo/trl/dapo": (b) => policyLoss(b, TRL),
  "grpo/trl/dr_grpo": (b) =>
    policyLoss(b, {
      ...TRL,
      advantages: (s) => s.advantageNoStd,
      aggregation: "fixed-length",
      fixedLength: 40,
    }),
  "grpo/trl/kl": (b) =>
    policyLoss(b, {
      ...TRL,
      aggregation: sequenceMean,
      kl: k("k3"),
      totals: { policySequences: all(b) },
    }),
  "grpo/trl/off-policy-mask": (b) => policyLoss(b, { ...TRL, advantages: offPolicyMasked(b) }),
  "tis/trl/token_truncate": (b) => policyLoss(b, { ...TRL, advantages: truncated }),
  "tis/trl/sequence_mask": (b) => policyLoss(b, { ...TRL, advantages: ofSequence((w) => (w <= 2 ? w : 0)) }),

  "grpo/slime": (b) => policyLoss(b, { ...VERL, aggregation: sequenceMean, totals: { policySequences: 1 } }),
  "grpo/openrlhf": (b) => policyLoss(b, VERL),

  "distill/sdft/sampled_token": sampledTokenDistillation,
  "distill/iw/importance_weighted_opd": (b) => crossEntropy(b, importanceWeighted, countTokens(b, "distill")),
  "distill/verl/k1_policy_gradient": (b) =>
    policyLoss(b, { dualClip: 3, mask: "distill", advantages: currentTeacherGap(10) }),
  "distill/verl/k1_policy_gradient_clamped": (b) =>
    policyLoss(b, { dualClip: 3, mask: "distill", advantages: currentTeacherGap(0.5) }),
  "distill/verl/k3_direct": (b) =>
    policyLoss(b, { weight: 0, mask: "distill", kl: k("k3", 1, 10), klTo: "teacher" }),
  "distill/verl/k2_direct": (b) =>
    policyLoss(b, {
      weight: 0,
      mask: "distill",
      kl: k("k2", 1),
      klTo: "teacher",
      aggregation: sequenceMean,
    }),
  "distill/openclaw/token_opd": (b) =>
    policyLoss(b, {
      ...TRL,
      advantages: plusTeacherGap(0, 1, Number.POSITIVE_INFINITY),
      aggregation: sequenceMean,
      kl: k("k3", 0.05, 10),
      totals: { policySequences: 1 },
    }),
  "distill/tinker_importance_sampling": (b) =>
    policyLoss(b, {
      clip: [1, Number.POSITIVE_INFINITY],
      mask: "distill",
      old: "rollout",
      advantages: each((s, t) => at(s.distill, t) && 0.7 * (at(s.teacher, t) - at(s.rollout, t))),
      totals: { policyTokens: 1 },
    }),

  "combined/openclaw": (b) =>
    policyLoss(b, {
      ...TRL,
      advantages: plusTeacherGap(1, 1, Number.POSITIVE_INFINITY),
      aggregation: sequenceMean,
      kl: k("k3", 0.05, 10),
      totals: { policySequences: 1 },
    }),
  "combined/slime_opd_kl_in_advantage": (b) =>
    policyLoss(b, {
      ...TRL,
      advantages: plusTeacherGap(1, 0.7, Number.POSITIVE_INFINITY),
      aggregation: sequenceMean,
      totals: { policySequences: 1 },
    }),
  "combined/verl_task_plus_distill": (b) =>
    policyLoss(b, { ...VERL, mask: "distill", kl: k("k3", 0.3, 10), klTo: "teacher" }),
  "combined/grpo_plus_clipped_opd_advantage": (b) =>
    policyLoss(b, { ...VERL, advantages: plusTeacherGap(1, 0.3, 0.5) }),
};

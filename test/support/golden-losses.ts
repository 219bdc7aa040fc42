import { type BatchTotals, batchTotals, type TrainingSequence } from "../../lib/policy/batch.js";
import type { Aggregation, Objective } from "../../lib/policy/objective.js";
import { type GoldenArrays, readGolden } from "./golden.js";

/** A sequence of a golden batch; every column has one entry per token and is 0 on the prompt. */
export interface GoldenSequence {
  tokens: number[];
  response: number[];
  distill: number[];
  advantage: number[];
  advantageNoStd: number[];
  old: number[];
  oldAtTemperature: number[];
  rollout: number[];
  reference: number[];
  teacher: number[];
  /** Of the current weights. */
  student: number[];
}

/** A golden batch and what its losses refer to. */
export interface GoldenBatch {
  sequences: GoldenSequence[];
  /** Width of the padded responses. */
  paddedWidth: number;
  offPolicyThreshold: number;
}

/** What `forwardBackward` has to be called with to compute a golden loss. */
export interface GoldenLoss {
  batch: TrainingSequence[];
  objective: Objective;
  totals?: BatchTotals;
  temperature?: number;
}

export function readGoldenBatch(model: string, arrays: GoldenArrays): GoldenBatch {
  const json = readGolden("golden", "grads", model, "batch.json");
  // biome-ignore lint/suspicious/noExplicitAny: golden JSON
  const sequences = json.sequences.map((sequence: any): GoldenSequence => {
    const { token_ids: tokens, prompt_len: prompt, teacher } = sequence;
    const responseLength = tokens.length - prompt;
    const column = (response: ArrayLike<number>) => [...new Array(prompt).fill(0), ...Array.from(response)];
    const constant = (value: number) => column(new Array(responseLength).fill(value));
    return {
      tokens,
      response: column(sequence.response_mask),
      distill: column(sequence.distill_mask),
      advantage: constant(sequence.advantage),
      advantageNoStd: constant(sequence.advantage_nostd),
      old: column(sequence.old_logp),
      oldAtTemperature: column(sequence.old_logp_temperature),
      rollout: column(sequence.rollout_logp),
      reference: column(sequence.ref_logp),
      teacher: teacher ? column(arrays.get(teacher.teacher_logp)) : constant(0),
      student: column(arrays.get(sequence.student_logp)),
    };
  });
  return {
    sequences,
    paddedWidth: json.padded_response_width_T,
    offPolicyThreshold: json.hyper_parameters.opsm,
  };
}

type Column = (sequence: GoldenSequence) => number[];

/** A column from the tokens of one sequence. */
const each =
  (value: (sequence: GoldenSequence, t: number) => number): Column =>
  (sequence) =>
    sequence.tokens.map((_, t) => value(sequence, t));

const at = (column: number[], t: number) => column[t] as number;
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
const countTokens = (batch: GoldenBatch, column: "response" | "distill") =>
  sum(batch.sequences.flatMap((sequence) => sequence[column]));
const clamp = (value: number, bound: number) => Math.max(-bound, Math.min(bound, value));

/** Sum of a quantity over the response tokens of a sequence. */
const overResponse = (sequence: GoldenSequence, value: (t: number) => number) =>
  sum(sequence.tokens.map((_, t) => (at(sequence.response, t) ? value(t) : 0)));

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

// Losses that are GRPO with a detached weight on every token are GRPO with other advantages: the loss is homogeneous
// in A, so w * L(A) = L(w * A) for w > 0.

const importance = ({ old, rollout }: GoldenSequence, t: number) => Math.exp(at(old, t) - at(rollout, t));
const truncated = each((s, t) => at(s.advantage, t) * Math.min(importance(s, t), 2));
const iced = each((s, t) => {
  const w = importance(s, t);
  return w >= 0.5 && w <= 2 ? at(s.advantage, t) * w : 0;
});
const ofSequence =
  (limit: (w: number) => number): Column =>
  (s) => {
    const w = limit(Math.exp(overResponse(s, (t) => at(s.old, t) - at(s.rollout, t))));
    return s.advantage.map((advantage) => advantage * w);
  };

function batchNormalised(batch: GoldenBatch): Column {
  const mean =
    sum(batch.sequences.map((s) => overResponse(s, (t) => Math.min(importance(s, t), 2)))) /
    countTokens(batch, "response");
  return (s) => truncated(s).map((advantage) => advantage / mean);
}

const offPolicyMasked =
  ({ offPolicyThreshold }: GoldenBatch): Column =>
  (s) => {
    const gap = overResponse(s, (t) => at(s.old, t) - at(s.student, t));
    const length = overResponse(s, () => 1);
    return s.advantage.map((a) => (a < 0 && gap > offPolicyThreshold * length ? 0 : a));
  };

/** A * scale + coefficient * (teacher - old) on distilled tokens. */
const plusTeacherGap = (scale: number, coefficient: number, bound: number): Column =>
  each((s, t) => {
    const gap = at(s.distill, t) ? at(s.teacher, t) - at(s.old, t) : 0;
    return scale * at(s.advantage, t) + coefficient * clamp(gap, bound);
  });

const currentTeacherGap = (bound: number): Column =>
  each((s, t) => (at(s.distill, t) ? clamp(at(s.teacher, t) - at(s.student, t), bound) : 0));

/** a = teacher - rollout, weighted by the share of |a| that is still to come in its sequence. */
const importanceWeighted: Column = (s) => {
  const gaps = s.tokens.map((_, t) => (at(s.distill, t) ? at(s.teacher, t) - at(s.rollout, t) : 0));
  const total = overResponse(s, (t) => Math.abs(at(gaps, t)));
  let before = 0;
  return gaps.map((gap) => {
    const weighted = gap === 0 ? 0 : (2 - before / total) * gap;
    before += Math.abs(gap);
    return weighted;
  });
};

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

const RATIO = "another policy loss than the clipped ratio";
const WHOLE = "needs the whole distribution of the teacher, not the log-prob of one token";
const KL = "another KL estimator than k1, k2, k3";

/** Why the others cannot be expressed; every golden loss is in exactly one of the two tables. */
export const goldenLossesLeftOut: Record<string, string> = {
  ...Object.fromEntries(
    ["grpo/verl/kl-abs", "grpo/verl/kl-k1+", "grpo/verl/kl-k3+", "grpo/trl/kl-bias-corrected"].map((id) => [
      id,
      KL,
    ]),
  ),
  ...Object.fromEntries(
    [
      ...["grpo/trl/two-sided-delta", "gspo/verl", "gspo/trl", "gspo/openrlhf", "cispo/verl", "cispo/trl"],
      ...["sapo/verl", "sapo/trl", "gmpo/verl", "vespo/trl"],
    ].map((id) => [id, RATIO]),
  ),
  ...Object.fromEntries(
    [
      ...[
        "distill/reverse_kl",
        "distill/forward_kl",
        "distill/jsd_0.1",
        "distill/jsd_0.5",
        "distill/jsd_0.9",
      ],
      ...["distill/reverse_kl_temp", "distill/jsd_temp", "distill/forward_kl_temp"],
      ...["distill/forward_kl_temp_hinton", "distill/reverse_kl_sum", "distill/reverse_kl_num_items"],
      ...["distill/sdft/reverse_kl", "distill/sdft/forward_kl", "distill/sdft/topk_renorm_reverse"],
      ...["distill/sdft/topk_tail_reverse", "distill/sdft/topk_tail_forward", "distill/sdft/topk_renorm_jsd"],
      ...["distill/sdft/reverse_kl_isclip", "distill/iw/topk_tail_forward", "distill/iw/topk_renorm_forward"],
      ...["distill/iw/topk_tail_jsd", "distill/iw/topk_renorm_jsd_temp"],
      ...["distill/openclaw/topk_tail_reverse", "distill/verl/forward_kl_topk"],
      ...["combined/grpo_plus_reverse_kl", "combined/grpo_plus_forward_kl", "combined/grpo_plus_jsd"],
    ].map((id) => [id, WHOLE]),
  ),
  "grpo/verl/entropy-bonus": "an entropy bonus is not offered",
  "distill/minillm_advantage": "its loss is that of grpo/trl/dapo; the advantage is the caller's",
};

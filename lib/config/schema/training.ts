import { z } from "zod";
import { TEMPERATURES } from "../../native/decoder.js";
import type { HindSearchOptions } from "../../training/options.js";
import { count } from "./fields.js";
import { Decoder } from "./model.js";

const zeroOrMore = z.int().min(0);

const Schedule = z
  .discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("constant").describe("The same weight always.") }),
    ...(["delayed", "warmup", "linear-decay"] as const).map((kind) =>
      z.strictObject({
        kind: z.literal(kind).describe(
          {
            delayed: "0 for the first steps, the full weight from then on.",
            warmup: "Rises linearly from 0.",
            "linear-decay": "Falls linearly to 0.",
          }[kind],
        ),
        steps: count.describe("Training steps."),
      }),
    ),
  ])
  .default({ kind: "constant" });

const Distillation = z.strictObject({
  weight: z.number().min(0).default(0.01).describe("Factor of the term."),
  clamp: z
    .tuple([z.number(), z.number()])
    .default([0, 1])
    .describe("Bounds of `teacherLogProb - logProb`, the weight of a token."),
  detach: z.boolean().default(true).describe("No gradient through that weight."),
  normalizer: z
    .enum(["distill-tokens", "policy-tokens", "sequences", "fixed"])
    .default("distill-tokens")
    .describe("What the sum is divided by."),
  fixed: z.number().positive().optional().describe("What `normalizer: fixed` divides by."),
  schedule: Schedule.describe("How the weight goes with the steps."),
  tokenScope: z
    .enum(["search", "search-with-tags", "think", "answer", "all"])
    .default("search")
    .describe("Tokens that the term acts on."),
  trajectoryScope: z
    .enum(["failed", "all-fail-groups", "mixed-groups", "all"])
    .default("failed")
    .describe("Trajectories that it acts on."),
  judgeSeesGold: z.boolean().default(true).describe("Whether the judge is told the gold answers."),
  hintControl: z
    .enum(["real", "empty", "shuffled"])
    .default("real")
    .describe("What the teacher is told; `empty` and `shuffled` are controls."),
  judgeDeadline: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .default(600_000)
    .describe("Milliseconds that a step waits for critiques behind its rollout."),
  maxTeacherTokens: count
    .optional()
    .describe("Tokens that the teacher reads at most. Default: the model's positions."),
});

/** Of options that are said elsewhere in a configuration. */
type Elsewhere =
  | "policy"
  | "retriever"
  | "questions"
  | "judge"
  | "protocol"
  | "reward"
  | "evaluation"
  | "runFolder"
  | "resume"
  | "checkpointEvery"
  | "keepCheckpoints"
  | "keepBest"
  | "sinks"
  | "memoryLimit"
  | "signal"
  | "finish"
  | `on${string}`;

/** The options of the trainer: the compiler asks for every one that is not said elsewhere. */
const shape = {
  steps: count.describe("Training steps. The paper: 300."),
  questionsPerStep: count.default(512).describe("Questions per step."),
  groupSize: count.default(5).describe("Trajectories per question, G."),
  miniBatches: count.default(2).describe("Optimizer steps per training step."),
  seed: zeroOrMore.default(0).describe("Of order, sampling and evaluation."),
  successThreshold: z.number().default(0.5).describe("A trajectory with a lower reward failed."),
  sampling: z
    .strictObject({
      temperature: z
        .number()
        .min(TEMPERATURES.least)
        .max(TEMPERATURES.most)
        .default(1)
        .describe("For rollout, training, reference and teacher alike."),
    })
    .prefault({})
    .describe("The distribution that is sampled and trained; never truncated."),
  advantage: z
    .strictObject({
      baseline: z
        .enum(["group-mean", "leave-one-out"])
        .default("group-mean")
        .describe("What a reward is compared with."),
      normalize: z.boolean().default(true).describe("Whether to divide by the standard deviation."),
      epsilon: z.number().min(0).default(1e-6).describe("Added to it."),
    })
    .prefault({})
    .describe("Rewards to advantages."),
  policyTerm: z
    .strictObject({
      weight: z.number().default(1).describe("Factor of the term."),
      clipLow: z.number().min(0).max(1).default(0.2).describe("Lower clip range of the ratio."),
      clipHigh: z.number().min(0).default(0.2).describe("Upper clip range."),
      dualClip: z
        .number()
        .gt(1)
        .optional()
        .describe("For negative advantages the loss is at most so often the advantage. Default: off."),
      aggregation: z
        .enum(["token-mean", "sequence-mean-token-mean", "sequence-sum", "fixed-length"])
        .default("token-mean")
        .describe("How per-token losses become one number."),
      fixedLength: z.number().positive().optional().describe("Tokens that `fixed-length` divides by."),
    })
    .prefault({})
    .describe("The clipped policy gradient."),
  kl: z
    .union([
      z.literal(false),
      z.strictObject({
        weight: z.number().min(0).default(0.001).describe("Factor of the term."),
        estimator: z.enum(["k1", "k2", "k3"]).default("k3").describe("How the divergence is estimated."),
        maxValue: z.number().positive().optional().describe("Cuts `k3` off here. Default: off."),
      }),
    ])
    .prefault({})
    .describe("KL to the frozen initial policy; `false` is off."),
  distillation: z
    .union([z.literal(false), Distillation])
    .optional()
    .describe("The HindSearch term; needs a judge. Default: on if there is one; `false` is off."),
  optimizer: z
    .strictObject({
      beta1: z.number().min(0).lt(1).default(0.9).describe("Decay of the first moments."),
      beta2: z.number().min(0).lt(1).default(0.999).describe("Decay of the second moments."),
      epsilon: z.number().positive().default(1e-8).describe("Added to the root of the second moments."),
      weightDecay: z.number().min(0).default(0.01).describe("Applied to every parameter."),
      maxGradientNorm: z
        .number()
        .min(0)
        .default(1)
        .describe("Larger gradients are scaled down to it; 0: off."),
    })
    .prefault({})
    .describe("AdamW."),
  learningRate: z
    .strictObject({
      kind: z
        .enum(["constant", "linear", "cosine"])
        .default("constant")
        .describe("How the rate falls after the warm-up."),
      learningRate: z.number().min(0).default(1e-6).describe("The highest rate."),
      warmupSteps: zeroOrMore
        .optional()
        .describe("Optimizer steps over which the rate rises from 0. Default: 28.5 % of all."),
      totalSteps: count
        .optional()
        .describe("Optimizer steps at which `linear` and `cosine` reach their floor. Default: all."),
      minimumRatio: z.number().min(0).max(1).default(0).describe("The floor as a share of `learningRate`."),
    })
    .prefault({})
    .describe("By optimizer steps."),
  search: z
    .strictObject({
      searchRetries: zeroOrMore.default(1).describe("Further attempts for a query whose search failed."),
      searchDeadline: count.default(60_000).describe("Milliseconds for one call of the retriever."),
      searchConcurrency: count.default(2).describe("Calls of the retriever at the same time."),
      outage: z
        .enum(["pause", "fail"])
        .default("pause")
        .describe(
          "What happens when the search service is gone: trajectories wait for it, or their searches fail.",
        ),
      maxOutageMs: count
        .default(3_600_000)
        .describe("Milliseconds that a rollout waits for the service, all outages together."),
      maxFailedShare: z
        .number()
        .min(0)
        .max(1)
        .default(0.1)
        .describe("The step fails once more than this share of its trajectories lost a search."),
    })
    .prefault({})
    .describe("How searches that fail are treated."),
  microBatchTokens: count
    .max(2 ** 31 - 1)
    .optional()
    .describe("Tokens that training and scoring run together. Default: the engine's."),
  checkpointActivations: z
    .boolean()
    .default(true)
    .describe("Keep one tensor per layer and compute the rest again: less memory, a third more time."),
  decoder: Decoder.prefault({}).describe("Size of the decoder's cache and batch."),
  measureEvery: zeroOrMore
    .default(10)
    .describe("Every so many steps the costly health numbers are taken too; 0: never."),
  startupCheck: z
    .strictObject({
      trajectories: zeroOrMore
        .default(8)
        .describe("Trajectories of the first rollout that are scored again; 0 is off."),
      tolerance: z
        .number()
        .min(0)
        .optional()
        .describe(
          "Largest difference that is let pass, in nats. Default: on the CPU 0; on a GPU 0.25 in bf16 and 1e-4 in f32.",
        ),
    })
    .prefault({})
    .describe("The check at the start that the policy's log-probs are those that it trains with."),
  maxSkippedUpdates: zeroOrMore
    .default(3)
    .describe("Updates in a row that a gradient that is not finite may cost."),
} satisfies Record<Exclude<keyof HindSearchOptions, Elsewhere>, z.ZodType>;

/** The training itself. */
export const Training = z.strictObject(shape).meta({ id: "training" });

/** See {@link Training}. */
export type TrainingConfig = z.output<typeof Training>;

import { z } from "zod";
import { type SearchFailureOptions, searchSettings } from "../agent/search-options.js";
import type { Sampling } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import { milliseconds, parseOptions } from "../network/options.js";
import type { KlTerm, PolicyTerm } from "../policy/objective.js";
import type { DecoderOptions, StepOptions } from "../policy/policy-options.js";
import type { AdvantageOptions } from "./advantages.js";
import type {
  DistillationOptions,
  EvaluationOptions,
  HindSearchOptions,
  StartupCheckOptions,
} from "./options.js";

const has = (method: string) =>
  z.custom<object>(
    (value) => typeof (value as Record<string, unknown> | null)?.[method] === "function",
    `must have a method ${method}`,
  );
const callback = z.custom<object>((value) => typeof value === "function", "must be a function");
/** Checked where it is used: by the engine, or with a message of its own. */
const elsewhere = z.unknown().optional();
const number = z.number();
/** Options that may all be missing; `Options` makes the compiler ask for every one of them, and for no other. */
const settings = <Options>(shape: Record<keyof Options & string, z.ZodType>) =>
  z.strictObject(shape).partial();

const distillation = settings<DistillationOptions>({
  weight: number,
  clamp: z.array(elsewhere).length(2),
  detach: z.boolean(),
  normalizer: elsewhere,
  fixed: elsewhere,
  schedule: elsewhere,
  tokenScope: z.enum(["search", "search-with-tags", "think", "answer", "all"]),
  trajectoryScope: z.enum(["failed", "all-fail-groups", "mixed-groups", "all"]),
  judgeSeesGold: z.boolean(),
  hintControl: z.enum(["real", "empty", "shuffled"]),
  judgeDeadline: milliseconds.min(1),
  maxTeacherTokens: elsewhere,
});

const shape = {
  policy: has("snapshot"),
  retriever: has("search"),
  questions: z.array(elsewhere).min(1),
  steps: elsewhere,
  judge: has("critique").optional(),
  protocol: has("prompt").optional(),
  reward: has("score").optional(),
  successThreshold: number.optional(),
  questionsPerStep: elsewhere,
  groupSize: elsewhere,
  miniBatches: elsewhere,
  seed: elsewhere,
  sampling: settings<Sampling>({
    temperature: elsewhere,
    topK: elsewhere,
    topP: elsewhere,
    minP: elsewhere,
  }).optional(),
  advantage: settings<AdvantageOptions>({
    baseline: z.enum(["group-mean", "leave-one-out"]),
    normalize: z.boolean(),
    epsilon: number.min(0),
  }).optional(),
  policyTerm: settings<PolicyTerm>({
    weight: elsewhere,
    clipLow: elsewhere,
    clipHigh: elsewhere,
    dualClip: elsewhere,
    aggregation: elsewhere,
    fixedLength: elsewhere,
  }).optional(),
  kl: settings<KlTerm>({ weight: elsewhere, estimator: elsewhere, maxValue: elsewhere }).optional(),
  distillation: distillation.optional(),
  optimizer: settings<Omit<StepOptions, "learningRate">>({
    beta1: elsewhere,
    beta2: elsewhere,
    epsilon: elsewhere,
    weightDecay: elsewhere,
    maxGradientNorm: elsewhere,
  }).optional(),
  learningRate: elsewhere,
  search: settings<SearchFailureOptions>({
    searchRetries: elsewhere,
    searchDeadline: elsewhere,
    searchConcurrency: elsewhere,
    outage: elsewhere,
    maxOutageMs: elsewhere,
    maxFailedShare: number.min(0).max(1),
  }).optional(),
  microBatchTokens: elsewhere,
  checkpointActivations: z.boolean().optional(),
  decoder: settings<DecoderOptions>({
    cacheTokens: elsewhere,
    maxBatch: elsewhere,
    prefillTokens: elsewhere,
  }).optional(),
  memoryLimit: elsewhere,
  measureEvery: elsewhere,
  startupCheck: settings<StartupCheckOptions>({
    trajectories: z.int().min(0),
    tolerance: number.min(0),
  }).optional(),
  maxSkippedUpdates: elsewhere,
  evaluation: z
    .strictObject({
      questions: z.array(elsewhere).min(1),
      every: elsewhere,
      modes: z
        .array(z.enum(["greedy", "sampled"]))
        .min(1)
        .optional(),
      retriever: has("search").optional(),
      corpus: z.string().optional(),
    } satisfies Record<keyof EvaluationOptions, z.ZodType>)
    .optional(),
  runFolder: z.string().min(1).optional(),
  resume: z.union([z.boolean(), z.literal("with-other-settings")]).optional(),
  checkpointEvery: elsewhere,
  keepCheckpoints: elsewhere,
  keepBest: z.union([z.literal(false), z.enum(["exactMatch", "f1", "containment"])]).optional(),
  finish: z.instanceof(AbortSignal).optional(),
  sinks: z.array(has("write")).optional(),
  onProgress: callback.optional(),
  onWarning: callback.optional(),
  signal: z.instanceof(AbortSignal).optional(),
} satisfies Record<keyof HindSearchOptions, z.ZodType>;
const Options = z.strictObject(shape);

/**
 * Refuses options that would be ignored, or change a run without a word: unknown names, unknown words, wrong types.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming each of them.
 */
export function checkOptions(options: HindSearchOptions): void {
  const given = (term: unknown) => (term === false ? undefined : term);
  const { kl, distillation } = options;
  const terms = { kl: given(kl), distillation: given(distillation) };
  parseOptions(Options, { ...options, ...terms }, "HindSearchTrainer");
  searchSettings(options.search ?? {});
  const { questions, evaluation } = options;
  for (const [name, list] of Object.entries({
    questions,
    "evaluation.questions": evaluation?.questions ?? [],
  })) {
    for (const [i, one] of list.entries()) {
      const { question, goldAnswers } = (one ?? {}) as Partial<typeof one>;
      const golds = Array.isArray(goldAnswers) && goldAnswers.length > 0;
      if (typeof question === "string" && golds && goldAnswers.every((gold) => typeof gold === "string"))
        continue;
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `${name}[${i}] must have a question, which is text, and goldAnswers, a list of at least one text.`,
      );
    }
  }
}

import type { TokenScope } from "../agent/masks.js";
import { searchR1 } from "../agent/protocol.js";
import { type SearchSettings, searchSettings } from "../agent/search-options.js";
import type { Sampling } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import { hashQuestions, protocolSettings } from "../evaluation/evaluate.js";
import { logProbTolerance } from "../policy/device.js";
import type { DistillTerm, KlTerm, PolicyTerm } from "../policy/objective.js";
import type { Policy } from "../policy/policy.js";
import type { StepOptions } from "../policy/policy-options.js";
import { exactMatchReward } from "../reward/reward.js";
import type { AdvantageOptions } from "./advantages.js";
import type { TrajectoryScope } from "./critiques.js";
import type { HintControl } from "./hints.js";
import type { BestScore, EvaluationMode, HindSearchOptions, StartupCheckOptions } from "./options.js";
import { checkTrainingSampling } from "./sampling-check.js";
import {
  type LearningRateSchedule,
  learningRateAt,
  type WeightSchedule,
  weightFactorAt,
} from "./schedule.js";

/** Of all optimizer steps, those of the default warm-up. */
export const WARMUP_SHARE = 0.285;

/** The HindSearch term with every default filled in. */
export interface DistillationSettings {
  /** The term, with its full weight. */
  term: DistillTerm & Required<Pick<DistillTerm, "weight" | "clamp">>;
  /** Of the weight. */
  schedule: WeightSchedule;
  /** Tokens it acts on. */
  tokenScope: TokenScope;
  /** Trajectories it acts on. */
  trajectoryScope: TrajectoryScope;
  /** Whether the judge is told the gold answers. */
  judgeSeesGold: boolean;
  /** What the teacher is told. */
  hintControl: HintControl;
  /** Milliseconds that a step waits for critiques behind its rollout. */
  judgeDeadline: number;
  /** Budget of a hinted context. */
  maxTeacherTokens: number;
}

/** Who takes part in a run, in words. */
export interface Participants {
  /** Family, size and compute type. */
  policy: string;
  /** Name of its class. */
  retriever: string;
  /** Name of its class; `null` for plain GRPO. */
  judge: string | null;
  /** Its own name. */
  reward: string;
}

/** All numbers and switches of a run with every default filled in, as plain data: what `config.json` holds. */
export interface TrainerSettings {
  /** Training steps. */
  steps: number;
  /** Questions per step. */
  questionsPerStep: number;
  /** Trajectories per question. */
  groupSize: number;
  /** Optimizer steps per training step. */
  miniBatches: number;
  /** Of order, sampling and evaluation. */
  seed: number;
  /** A trajectory with a lower reward failed. */
  successThreshold: number;
  /** The distribution that is sampled and trained. */
  sampling: Sampling;
  /** Rewards to advantages. */
  advantage: AdvantageOptions;
  /** The clipped policy gradient. */
  policyTerm: PolicyTerm;
  /** KL to the frozen initial policy; `null` is off. */
  kl: KlTerm | null;
  /** The HindSearch term; `null` is off. */
  distillation: DistillationSettings | null;
  /** AdamW. */
  optimizer: Omit<StepOptions, "learningRate">;
  /** By optimizer steps. */
  learningRate: LearningRateSchedule;
  /** How searches that fail are treated. */
  search: SearchSettings;
  /** Tokens that are run together; `null`: the engine's default. */
  microBatchTokens: number | null;
  /** Whether backward computes most of a layer again. */
  checkpointActivations: boolean;
  /** Every so many steps the costly health numbers are taken; 0: never. */
  measureEvery: number;
  /** The check at the start of a run. */
  startupCheck: Required<StartupCheckOptions>;
  /** Updates in a row that may be skipped. */
  maxSkippedUpdates: number;
  /** Steps between two evaluations. */
  evaluateEvery: number;
  /** How evaluations decode. */
  evaluationModes: readonly EvaluationMode[];
  /** Steps between two checkpoints; 0: none. */
  checkpointEvery: number;
  /** Newest checkpoints that are kept. */
  keepCheckpoints: number;
  /** Score by which one more checkpoint is kept, the best; `null`: none. */
  keepBest: BestScore | null;
  /** How many training questions there are. */
  questionCount: number;
  /** Of their texts and gold answers, in order. */
  questionsHash: string;
  /** Limits and wording of the protocol. */
  protocol: ReturnType<typeof protocolSettings>;
  /** Who took part: what a later reader needs to know beside the numbers. */
  participants: Participants;
}

/**
 * Fills in the defaults.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for values outside their range and options that could have no effect.
 */
export function resolveSettings(options: HindSearchOptions): TrainerSettings {
  const { steps, questionsPerStep = 512, groupSize = 5, miniBatches = 2, evaluation } = options;
  const counts = { steps, questionsPerStep, groupSize, miniBatches };
  for (const [name, value] of Object.entries(counts)) requireInteger(name, value, 1);
  requireCountable(counts);
  const { measureEvery = 10, checkpointEvery = 1, keepCheckpoints = 2, maxSkippedUpdates = 3 } = options;
  const { keepBest = "exactMatch" } = options;
  const { seed = 0 } = options;
  const zeros = { seed, measureEvery, checkpointEvery, maxSkippedUpdates };
  for (const [name, value] of Object.entries(zeros)) requireInteger(name, value, 0);
  requireInteger("keepCheckpoints", keepCheckpoints, 1);
  const { microBatchTokens = null } = options;
  if (microBatchTokens !== null) requireInteger("microBatchTokens", microBatchTokens, 1, 2 ** 31 - 1);
  requireInteger("evaluation.every", evaluation?.every ?? 50, 1);
  const updates = updatesOf(counts);
  const learningRate = options.learningRate ?? {
    kind: "constant",
    learningRate: 1e-6,
    warmupSteps: Math.round(WARMUP_SHARE * updates),
  };
  learningRateAt(learningRate, updates);
  return {
    ...counts,
    seed,
    successThreshold: options.successThreshold ?? 0.5,
    sampling: checkTrainingSampling(options.sampling),
    advantage: { baseline: "group-mean", normalize: true, epsilon: 1e-6, ...options.advantage },
    policyTerm: options.policyTerm ?? {},
    kl: options.kl === false ? null : { weight: 0.001, estimator: "k3", ...options.kl },
    distillation: resolveDistillation(options),
    optimizer: options.optimizer ?? {},
    learningRate,
    search: searchSettings(options.search ?? {}),
    microBatchTokens,
    checkpointActivations: options.checkpointActivations ?? true,
    measureEvery,
    startupCheck: { trajectories: 8, tolerance: logProbTolerance(options.policy), ...options.startupCheck },
    maxSkippedUpdates,
    evaluateEvery: evaluation?.every ?? 50,
    evaluationModes: evaluation?.modes ?? ["greedy"],
    checkpointEvery,
    keepCheckpoints,
    keepBest: keepBest === false || evaluation === undefined ? null : keepBest,
    questionCount: options.questions.length,
    questionsHash: hashQuestions(options.questions),
    protocol: protocolSettings(options.protocol ?? searchR1()),
    participants: {
      policy: describePolicy(options.policy),
      retriever: options.retriever.constructor.name,
      judge: options.judge?.constructor.name ?? null,
      reward: (options.reward ?? exactMatchReward()).name,
    },
  };
}

/**
 * Refuses a run whose trajectories or optimizer steps no number counts.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
 */
export function requireCountable({
  steps,
  questionsPerStep,
  groupSize,
  miniBatches,
}: Pick<TrainerSettings, "steps" | "questionsPerStep" | "groupSize" | "miniBatches">): void {
  requireInteger("questionsPerStep * groupSize", questionsPerStep * groupSize, 1);
  requireInteger("steps * miniBatches", steps * miniBatches, 1);
}

/** Optimizer steps of a run. */
export function updatesOf({
  steps,
  miniBatches,
  questionsPerStep,
}: Pick<TrainerSettings, "steps" | "miniBatches" | "questionsPerStep">): number {
  return steps * Math.min(miniBatches, questionsPerStep);
}

function resolveDistillation(options: HindSearchOptions): DistillationSettings | null {
  const { judge, policy } = options;
  if (options.distillation === false) return null;
  if (judge === undefined) {
    if (options.distillation === undefined) return null;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "Options for distillation are given but no judge, so they could have no effect. Give a judge, or leave them out " +
        "for plain GRPO.",
    );
  }
  const {
    schedule = { kind: "constant" },
    tokenScope = "search",
    trajectoryScope = "failed",
    judgeSeesGold = true,
    hintControl = "real",
    judgeDeadline = 600_000,
    maxTeacherTokens = policy.config.maxPositions,
    ...term
  } = options.distillation ?? {};
  weightFactorAt(schedule, 0);
  requireInteger("distillation.maxTeacherTokens", maxTeacherTokens, 1);
  return {
    term: { ...term, weight: term.weight ?? 0.01, clamp: term.clamp ?? [0, 1] },
    schedule,
    tokenScope,
    trajectoryScope,
    judgeSeesGold,
    hintControl,
    judgeDeadline,
    maxTeacherTokens,
  };
}

/** Family, size, compute type and a device that is no CPU, in words. */
export function describePolicy({ family, parameters, compute, device }: Policy): string {
  const count = parameters.reduce((sum, { shape }) => sum + shape.reduce((size, axis) => size * axis, 1), 0);
  return `${family}, ${(count / 1e6).toFixed(2)} M parameters, computed in ${compute}${device === "cpu" ? "" : ` on ${device}`}`;
}

/** The HindSearch term with the weight of a step; `undefined` where that is 0. */
export function distillTermAt(settings: TrainerSettings, step: number): DistillTerm | undefined {
  const { distillation } = settings;
  if (distillation === null) return undefined;
  const weight = distillation.term.weight * weightFactorAt(distillation.schedule, step);
  return weight === 0 ? undefined : { ...distillation.term, weight };
}

/** Whether the costly health numbers are taken in a step. */
export function isMeasured({ measureEvery }: TrainerSettings, step: number): boolean {
  return measureEvery > 0 && step % measureEvery === 0;
}

/** Whether the run needs a frozen copy of the initial policy. */
export function needsTeacher({ kl, distillation, measureEvery }: TrainerSettings): boolean {
  return kl !== null || distillation !== null || measureEvery > 0;
}

function requireInteger(name: string, value: number, least: number, most = Number.MAX_SAFE_INTEGER): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  const limits = value > most ? `at most ${most}` : `an integer of at least ${least}`;
  throw new HindsearchError("INVALID_ARGUMENT", `${name} is ${value}, expected ${limits}.`);
}

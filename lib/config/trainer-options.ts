import type { Reward } from "../reward/reward.js";
import { exactMatchReward, f1Reward, formatReward } from "../reward/reward.js";
import type { HindSearchOptions } from "../training/options.js";
import type { LearningRateSchedule } from "../training/schedule.js";
import { updatesOf, WARMUP_SHARE } from "../training/settings.js";
import { defined } from "./defined.js";
import { protocolOf } from "./protocol.js";
import type { ReadConfiguration } from "./read.js";
import type { Configuration } from "./schema/configuration.js";
import type { RewardConfig } from "./schema/reward.js";
import type { TrainingConfig } from "./schema/training.js";

/** Who takes part in a training, and how it is watched: what a file cannot hold. */
export type Participants = Pick<HindSearchOptions, "policy" | "retriever" | "questions"> &
  Partial<
    Pick<
      HindSearchOptions,
      "evaluation" | "judge" | "sinks" | "resume" | "signal" | "finish" | "onProgress" | "onWarning"
    >
  >;

/** The trainer's options as a configuration says them. */
export function trainerOptions(
  configuration: ReadConfiguration,
  participants: Participants,
): HindSearchOptions {
  const { training, protocol, reward, run, model } = configuration.values;
  const { learningRate, distillation, ...rest } = defined(training);
  return {
    ...rest,
    learningRate: learningRateOf(training),
    // The schema's default is that of the term; without a judge there is none.
    ...(distillation !== undefined && { distillation }),
    ...(model.memoryLimit !== undefined && { memoryLimit: model.memoryLimit }),
    protocol: protocolOf(protocol),
    reward: rewardOf(reward, protocol),
    runFolder: configuration.resolve(run.folder),
    checkpointEvery: run.checkpointEvery,
    keepCheckpoints: run.keepCheckpoints,
    keepBest: run.keepBest,
    ...participants,
  } as HindSearchOptions;
}

function learningRateOf({ learningRate, ...counts }: TrainingConfig): LearningRateSchedule {
  const updates = updatesOf(counts);
  const { kind, learningRate: rate, minimumRatio, totalSteps = updates } = learningRate;
  const { warmupSteps = Math.round(WARMUP_SHARE * updates) } = learningRate;
  const rise = { kind, learningRate: rate, warmupSteps };
  return kind === "constant" ? rise : { ...rise, totalSteps, minimumRatio };
}

function rewardOf(config: RewardConfig, { tags }: Configuration["protocol"]): Reward {
  if (config.kind === "exact-match") return exactMatchReward();
  if (config.kind === "f1") return f1Reward();
  const { kind: _, ...parts } = config;
  const pair = ({ open, close }: { open: string; close: string }) => [open, close] as const;
  return formatReward({
    ...parts,
    tags: { think: ["<think>", "</think>"], search: pair(tags.search), answer: pair(tags.answer) },
  });
}

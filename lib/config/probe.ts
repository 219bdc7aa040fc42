import { HindsearchError } from "../errors.js";
import type { HindSearchOptions } from "../training/options.js";
import type { StepTimes } from "../training/record.js";
import { HindSearchTrainer } from "../training/trainer.js";
import { Held } from "./held.js";
import { openPolicy } from "./open-policy.js";
import { openRetriever, questionsOf } from "./open-training.js";
import type { ReadConfiguration } from "./read.js";
import { trainerOptions } from "./trainer-options.js";

/** What a probe measured, and what a training will take by that. Times in milliseconds. */
export interface ProbeResult {
  /** Of the measured step. */
  trajectories: number;
  /** Of all of them, prompts not counted. */
  tokens: number;
  /** Of the measured step. */
  milliseconds: StepTimes;
  /** Of a step of the training, the judge's answers not counted. */
  step: number;
  /** Of one evaluation, all its modes. */
  evaluation: number;
  /** How many there will be. */
  evaluations: number;
  /** All steps and evaluations. */
  training: number;
}

/**
 * Trains two small steps as configured, without judge, evaluation and run folder, and reckons from the second what the
 * training will take: every part in proportion to the trajectories, and the teacher as long as the reference for the
 * trajectories that failed.
 *
 * @param count - Questions of a step.
 * @throws {@link HindsearchError} What training throws; `INVALID_DATA` if a step had no trajectory.
 */
export async function measureSteps(
  configuration: ReadConfiguration,
  count: number,
  watch: Pick<HindSearchOptions, "signal" | "onProgress">,
): Promise<ProbeResult> {
  const held = new Held();
  try {
    const { signal } = watch;
    const all = await questionsOf(configuration, "data", { signal });
    const evaluated = (await questionsOf(configuration, "evaluation", { signal })).length;
    const opened = held.add(await openRetriever(configuration, { signal }));
    const policy = held.add(await openPolicy(configuration, { signal }));
    const participants = { policy, retriever: opened.retriever, questions: all };
    const { runFolder: _, distillation: __, ...options } = trainerOptions(configuration, participants);
    const trainer = new HindSearchTrainer({
      ...options,
      ...watch,
      steps: 2,
      questionsPerStep: Math.min(count, all.length),
      measureEvery: 0,
      startupCheck: { trajectories: 0 },
      // What it does not say must not warn of a silent policy: two steps say nothing.
      onWarning: () => {},
    });
    for await (const { step, metrics, groups } of trainer) {
      if (step === 0) continue;
      const trajectories = groups.flat();
      const tokens = trajectories.reduce((sum, { trajectory }) => sum + trajectory.tokens.length, 0);
      const { milliseconds, rollout } = metrics;
      const measured = { trajectories: trajectories.length, tokens, milliseconds };
      return { ...measured, ...reckon(configuration, measured, rollout.failedShare ?? 0, evaluated) };
    }
    throw new HindsearchError("INVALID_DATA", "The probe had no step to measure.");
  } finally {
    await held.release();
  }
}

function reckon(
  { values }: ReadConfiguration,
  { trajectories, milliseconds }: Pick<ProbeResult, "trajectories" | "milliseconds">,
  failedShare: number,
  evaluated: number,
) {
  const { training, judge, evaluation } = values;
  const { steps, questionsPerStep, groupSize, distillation } = training;
  const share = (questionsPerStep * groupSize) / trajectories;
  const teacher = judge.kind === "none" || distillation === false ? 0 : failedShare;
  const { rollout, judgeAndReference, update } = milliseconds;
  const step = share * (rollout + judgeAndReference * (1 + teacher) + update);
  const modes = evaluation?.modes.length ?? 0;
  const oneEvaluation = modes * evaluated * (rollout / trajectories);
  const evaluations = evaluation ? 1 + Math.ceil(steps / evaluation.every) : 0;
  return {
    step,
    evaluation: oneEvaluation,
    evaluations,
    training: steps * step + evaluations * oneEvaluation,
  };
}

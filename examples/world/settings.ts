/**
 * The experiment in the generated world: what all arms share, and what tells them apart. Both sides of every comparison
 * use one world, one warm start, one seed and one set of questions; only the distillation term differs.
 */
import type { DistillationOptions } from "hindsearch";

/** An arm of the experiment. `grpo` is the baseline, `hindsearch` the method, the others its controls. */
export type Arm = "grpo" | "hindsearch" | "no-gold" | "first-missed" | "empty" | "shuffled";

/** What every arm does in a table's words. */
export const ARM_TITLES: Readonly<Record<Arm, string>> = {
  grpo: "GRPO",
  hindsearch: "HindSearch",
  "no-gold": "judge without gold answer",
  "first-missed": "first missed search only",
  empty: "empty hint",
  shuffled: "shuffled hints",
};

/** Shared by all arms. */
export const SETTINGS = {
  /** The world whose questions train. */
  trainingWorld: 7,
  /** A second world, with other entities and facts, that evaluates. */
  evaluationWorld: 8,
  evaluationQuestions: 400,
  hops: [0.1, 0.3, 0.6] as const,
  questionsPerStep: 40,
  groupSize: 5,
  steps: 30,
  evaluateEvery: 5,
  learningRate: 3e-4,
  warmupUpdates: 10,
  kl: 0.001,
  /**
   * Weight of the distillation term. The published 0.01 belongs to trajectories with 10 to 20 policy tokens for every
   * query token; here there are three, so the term's share of the gradient would be a few per cent.
   */
  distillationWeight: 0.5,
} as const;

/** The distillation options of an arm. GRPO has weight 0: its judge is asked for the health numbers alone. */
export function distillation(arm: Arm, weight: number): DistillationOptions {
  switch (arm) {
    case "grpo":
      return { weight: 0 };
    case "hindsearch":
    case "first-missed":
      return { weight };
    case "no-gold":
      return { weight, judgeSeesGold: false };
    case "empty":
      return { weight, hintControl: "empty" };
    case "shuffled":
      return { weight, hintControl: "shuffled" };
  }
}

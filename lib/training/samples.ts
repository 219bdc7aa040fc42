import { startPaced } from "../agent/pacer.js";
import type { Trajectory } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import type { Critique } from "../judge/critique.js";
import type { RewardResult } from "../reward/reward.js";
import { type AdvantageOptions, groupAdvantages, rewardsEqual } from "./advantages.js";

/** A trajectory with what a training step finds out about it. Every log-prob column is as long as `tokens`. */
export interface TrainingSample {
  /** What was sampled. */
  readonly trajectory: Trajectory;
  /** `null` if there is none: its search failed. */
  readonly reward: number | null;
  /** Parts of the reward, e.g. `exactMatch`; empty without reward. */
  readonly components: RewardResult["components"];
  /** Within its group; `null` without reward. */
  readonly advantage: number | null;
  /** Whether it has a reward, and that is below the threshold of success. */
  readonly failed: boolean;
  /** What its group is like. */
  readonly group: GroupOutcome;
  /** What the judge said, if it was asked. */
  critique?: Critique;
  /** Of the frozen initial policy on the plain prompt. */
  referenceLogProbs?: Float32Array;
  /** Of the frozen initial policy on the prompt with the hint; only for samples of the distillation term. */
  teacherLogProbs?: Float32Array;
}

/**
 * How the rewards of a group relate. `mixed` groups have a policy gradient; the others have none.
 *
 * - `all-fail`: equal rewards, below the threshold of success.
 * - `all-pass`: equal rewards at the threshold or above.
 * - `unscored`: no trajectory has a reward.
 */
export type GroupOutcome = "mixed" | "all-fail" | "all-pass" | "unscored";

/** Options of {@link scoreGroups}. */
export interface ScoringOptions {
  /** A reward below it is a failure. */
  successThreshold: number;
  /** Rewards to advantages. */
  advantage: AdvantageOptions;
}

/**
 * Rewards and advantages of a rollout, group by group.
 *
 * @param groups - Trajectories by question.
 * @param score - Scores a trajectory; not asked about `search failed` ones, which have no reward.
 * @param options - Threshold and advantages.
 */
export async function scoreGroups(
  groups: readonly (readonly Trajectory[])[],
  score: (trajectory: Trajectory) => RewardResult | Promise<RewardResult>,
  { successThreshold, advantage }: ScoringOptions,
): Promise<TrainingSample[][]> {
  return startPaced(groups, async (trajectories: readonly Trajectory[]) => {
    const results = await Promise.all(
      trajectories.map((trajectory) => (trajectory.status === "search failed" ? null : score(trajectory))),
    );
    const rewards = results.map((result, i) => rewardOf(result, trajectories[i] as Trajectory));
    const advantages = groupAdvantages(rewards, advantage);
    const group = outcome(rewards, successThreshold);
    return trajectories.map((trajectory, i): TrainingSample => {
      const reward = rewards[i] ?? null;
      return {
        trajectory,
        reward,
        components: results[i]?.components ?? {},
        advantage: advantages[i] ?? null,
        failed: reward !== null && reward < successThreshold,
        group,
      };
    });
  });
}

function rewardOf(result: RewardResult | null, { id }: Trajectory): number | null {
  if (result === null) return null;
  const reward: unknown = (result as RewardResult | undefined)?.reward;
  if (typeof reward === "number") return reward;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `The reward of trajectory ${id} is ${typeof reward}, expected a number; score() must return { reward, components }.`,
  );
}

function outcome(rewards: readonly (number | null)[], threshold: number): GroupOutcome {
  const members = rewards.filter((reward) => reward !== null);
  const [first] = members;
  if (first === undefined) return "unscored";
  if (!rewardsEqual(members)) return "mixed";
  return first < threshold ? "all-fail" : "all-pass";
}

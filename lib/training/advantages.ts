import { HindsearchError } from "../errors.js";

/** How rewards of a group become advantages. */
export interface AdvantageOptions {
  /**
   * What a reward is compared with: the mean of its group (GRPO, arXiv:2402.03300), or the mean of the others in
   * its group (RLOO, arXiv:2402.14740). Default `group-mean`.
   */
  baseline?: "group-mean" | "leave-one-out";
  /**
   * Whether to divide by the unbiased standard deviation (n - 1) of the rewards that made the baseline. Dr. GRPO
   * (arXiv:2503.20783) does not. Default `true`.
   */
  normalize?: boolean;
  /** Added to the standard deviation. Default 1e-6. */
  epsilon?: number;
}

/**
 * Rewards that differ by less than this share of the largest count as equal: sixteen units in the last place of a
 * 32-bit float. Eight times 0.1 summed in 32 bits miss their own mean by more than nothing, and a difference of
 * 1e-8 divided by a deviation of 1e-8 is an advantage of one.
 */
const ROUNDING = 2 ** -20;

/**
 * Advantages of one group: `(r - baseline) / (std + epsilon)`.
 *
 * - Rewards equal up to rounding give exactly 0.
 * - `null` is a trajectory without reward (its search failed): it is no member of the group and gets `null`.
 * - A group of one has nothing to compare with and gives 0.
 * - Leave-one-out is not divided where the others' rewards are equal, or where there is only one other.
 *
 * @param rewards - One per trajectory of the group.
 * @throws {@link HindsearchError} `NON_FINITE` if a reward is NaN or infinite.
 */
export function groupAdvantages(
  rewards: readonly (number | null)[],
  options: AdvantageOptions = {},
): (number | null)[] {
  const { baseline = "group-mean", normalize = true, epsilon = 1e-6 } = options;
  rewards.forEach((reward, sample) => {
    if (reward === null || Number.isFinite(reward)) return;
    throw new HindsearchError(
      "NON_FINITE",
      `The reward of sample ${sample} is ${reward}; a reward must be a finite number, or null if there is none.`,
    );
  });
  const members = rewards.filter((reward) => reward !== null);
  if (members.length < 2 || rewardsEqual(members)) return rewards.map((reward) => reward && 0);

  const whole = statistics(members);
  let seen = 0;
  return rewards.map((reward) => {
    if (reward === null) return null;
    const member = seen++;
    const against = baseline === "group-mean" ? whole : statistics(members.filter((_, i) => i !== member));
    const difference = reward - against.mean;
    return normalize && against.deviation > 0 ? difference / (against.deviation + epsilon) : difference;
  });
}

/** Whether rewards are equal up to rounding. An empty group and a group of one are. */
export function rewardsEqual(rewards: readonly number[]): boolean {
  const largest = Math.max(...rewards.map(Math.abs));
  return rewards.length < 2 || Math.max(...rewards) - Math.min(...rewards) <= ROUNDING * largest;
}

/** Deviation 0 where the values are equal up to rounding. */
function statistics(values: readonly number[]): { mean: number; deviation: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (rewardsEqual(values)) return { mean, deviation: 0 };
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / (values.length - 1)) };
}

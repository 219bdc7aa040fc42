import { type AbortOptions, abortable } from "../abort.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { RewardResult } from "../reward/reward.js";
import type { Critic } from "./critiques.js";
import { type ScoringOptions, scoreGroups, type TrainingSample } from "./samples.js";

/** Options of {@link Assessment}. */
export interface AssessmentOptions extends ScoringOptions, AbortOptions {
  /** Scores a trajectory; not asked about `search failed` ones. */
  score: (trajectory: Trajectory) => RewardResult | Promise<RewardResult>;
  /** Trajectories per group. */
  groupSize: number;
  /** Asks for critiques; `undefined` where there are none. */
  critic: Critic | undefined;
}

/**
 * Rewards of a step's trajectories, and a head start for their critiques, while others are still being decoded.
 *
 * The reward of a trajectory is taken when it ends. Its critique is asked for once its reward puts it into scope, or, for
 * scopes that ask about the whole group, once the rewards of the group do. What comes out is what would come out of
 * scoring and judging behind the rollout: only when things start depends on the order in which trajectories end.
 */
export class Assessment {
  readonly #options: AssessmentOptions;
  readonly #rewards = new Map<Trajectory, Promise<RewardResult>>();
  readonly #groups = new Map<number, Trajectory[]>();
  #failure: { error: unknown } | undefined;

  constructor(options: AssessmentOptions) {
    this.#options = options;
  }

  /**
   * Takes a trajectory that has ended.
   *
   * @throws What an earlier one's reward threw: the step is lost, and decoding on would be in vain.
   */
  start(trajectory: Trajectory): void {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (trajectory.status !== "search failed") void this.#reward(trajectory);
    const { critic, groupSize } = this.#options;
    if (critic === undefined) return;
    if (!critic.dependsOnGroup) {
      void this.#judge([trajectory], critic);
      return;
    }
    const group = this.#groups.get(trajectory.group) ?? [];
    this.#groups.set(trajectory.group, group);
    if (group.push(trajectory) === groupSize) void this.#judge(group, critic);
  }

  /**
   * Rewards and advantages of the whole rollout; what has not been started is now.
   *
   * @throws What a reward throws; {@link HindsearchError} `ABORTED`, `INVALID_ARGUMENT` or `NON_FINITE` for a reward that
   * is no finite number.
   */
  score(groups: readonly (readonly Trajectory[])[]): Promise<TrainingSample[][]> {
    // A reward may ask a service that does not answer.
    return abortable(this.#scored(groups), this.#options.signal);
  }

  #scored(groups: readonly (readonly Trajectory[])[]): Promise<TrainingSample[][]> {
    return scoreGroups(groups, (trajectory) => this.#reward(trajectory), this.#options);
  }

  #reward(trajectory: Trajectory): Promise<RewardResult> {
    let reward = this.#rewards.get(trajectory);
    if (reward === undefined) {
      reward = (async () => this.#options.score(trajectory))();
      reward.catch((error) => {
        this.#failure ??= { error };
      });
      this.#rewards.set(trajectory, reward);
    }
    return reward;
  }

  /** Members of one group: all of them, or as many as the scope asks for. */
  async #judge(members: readonly Trajectory[], critic: Critic): Promise<void> {
    // A reward that is none is an error of `score`, which knows its place in the whole group.
    const [samples = []] = await this.#scored([members]).catch(() => []);
    critic.ask(samples);
  }
}

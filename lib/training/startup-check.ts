import type { Trajectory } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import { scorePlain, type TeacherOptions } from "./teacher.js";

/**
 * Checks that the log-probs that a rollout recorded are those that the policy is trained with: the importance ratio of
 * a fresh token is then 1. A gap between the two is a silent bias in every step, so it ends the run at its start.
 *
 * @param policy - As it was when it sampled.
 * @param trajectories - Some of what it sampled; those without tokens of its own are passed over.
 * @param tolerance - Largest difference that is let pass, nats.
 * @returns The largest difference.
 * @throws {@link HindsearchError} `LOG_PROB_MISMATCH` naming trajectory and token.
 */
export async function checkLogProbs(
  policy: Pick<Policy, "score">,
  trajectories: readonly Trajectory[],
  tolerance: number,
  options: TeacherOptions,
): Promise<number> {
  const scores = await scorePlain(policy, trajectories, options);
  let largest = 0;
  for (const [i, { id, tokens, logProbs, spans }] of trajectories.entries()) {
    for (const { start, end, kind } of spans) {
      if (kind === "observation" || kind === "notice") continue;
      for (let t = start; t < end; t++) {
        const gap = Math.abs((scores[i]?.[t] as number) - (logProbs[t] as number));
        largest = Math.max(largest, gap);
        if (gap <= tolerance) continue;
        throw new HindsearchError(
          "LOG_PROB_MISMATCH",
          `Token ${t} (id ${tokens[t]}) of trajectory ${id} was sampled with log-prob ${logProbs[t]}, but is trained ` +
            `with ${scores[i]?.[t]}: ${gap} nats apart, and ${tolerance} are allowed. Whatever sampled must be what is ` +
            "trained. Was the policy changed during the rollout, or sampled at another temperature?",
        );
      }
    }
  }
  return largest;
}

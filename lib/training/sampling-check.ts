import { FULL_SAMPLING, type Sampling } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import { TEMPERATURES } from "../native/decoder.js";

/**
 * The sampling distribution of training.
 *
 * Truncated support (top-k, top-p, min-p) is refused: the sampler then draws from the kept tokens only while the
 * gradient is that of the full softmax, so the importance ratio of a fresh token is the kept mass and not 1, and the
 * policy gradient is biased. Greedy decoding is refused because G equal trajectories have no advantage.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
 */
export function checkTrainingSampling(sampling: Partial<Sampling> = {}): Sampling {
  const { temperature, topK, topP, minP } = { ...FULL_SAMPLING, ...sampling };
  if (topK !== 0 || topP !== 1 || minP !== 0) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Training cannot sample with truncated support (topK ${topK}, topP ${topP}, minP ${minP}): tokens would be drawn ` +
        "from a part of the distribution and trained under the whole of it, so their importance ratios were not 1. " +
        "Leave the filters out; they are for evaluation and use.",
    );
  }
  if (!(temperature >= TEMPERATURES.least && temperature <= TEMPERATURES.most)) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Training cannot sample at temperature ${temperature}: give one from ${TEMPERATURES.least} to ` +
        `${TEMPERATURES.most}; 1 is the usual one. At 0 all trajectories of a group would be the same and none had an ` +
        "advantage.",
    );
  }
  return { temperature, topK, topP, minP };
}

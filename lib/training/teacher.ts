import type { AbortOptions } from "../abort.js";
import type { BoundProtocol } from "../agent/bound-protocol.js";
import { Pacer } from "../agent/pacer.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { Policy } from "../policy/policy.js";
import type { TrainingSample } from "./samples.js";

/** Options of scoring. */
export interface TeacherOptions extends AbortOptions {
  /** That the trajectories were sampled with: a gap between two temperatures would be no gap between two contexts. */
  temperature: number;
  /** Tokens that are run together; no result depends on it. Default: the engine's. */
  microBatchTokens?: number | undefined;
}

/** What {@link scoreHinted} returns. */
export interface HintedScores {
  /** By sample, as long as the trajectory's tokens. */
  logProbs: Map<TrainingSample, Float32Array>;
  /** Samples whose hinted context is longer than the budget; they have no entry. */
  overBudget: number;
}

/**
 * Log-probs of trajectories under a model, in the context that they were sampled in.
 *
 * @returns Per trajectory one log-prob per token of `tokens`, inserted ones included.
 */
export function scorePlain(
  model: Pick<Policy, "score">,
  trajectories: readonly Trajectory[],
  options: TeacherOptions,
): Promise<Float32Array[]> {
  return scoreBehind(
    model,
    trajectories.map(({ promptTokens, tokens }) => ({ promptTokens, tokens })),
    options,
  );
}

/** Writes the reference's log-probs to the samples that have a reward. */
export async function scoreReference(
  reference: Pick<Policy, "score">,
  samples: readonly TrainingSample[],
  options: TeacherOptions,
): Promise<void> {
  const scored = samples.filter(({ reward }) => reward !== null);
  const logProbs = await scorePlain(
    reference,
    scored.map(({ trajectory }) => trajectory),
    options,
  );
  for (const [i, sample] of scored.entries()) sample.referenceLogProbs = logProbs[i] as Float32Array;
}

/**
 * Log-probs of trajectories under the teacher, which reads a hint at the start of the prompt.
 *
 * The trajectory's ids are appended to the hinted prompt as they were sampled, and log-probs are counted from the end
 * of the prompt: the two contexts differ in the prompt alone. One pass gives them for all searches of a trajectory,
 * since the hint stands before all of them. A context over the budget is left out, never cut.
 *
 * @param teacher - The frozen initial policy.
 * @param hints - By sample.
 * @param protocol - Builds the hinted prompts.
 * @param maxTokens - The budget of prompt and trajectory together.
 */
export async function scoreHinted(
  teacher: Pick<Policy, "score">,
  hints: ReadonlyMap<TrainingSample, string>,
  protocol: Pick<BoundProtocol, "promptTokens">,
  maxTokens: number,
  options: TeacherOptions,
): Promise<HintedScores> {
  const contexts: { sample: TrainingSample; promptTokens: Int32Array; tokens: Int32Array }[] = [];
  const pacer = new Pacer();
  for (const [sample, hint] of hints) {
    const { question, tokens } = sample.trajectory;
    contexts.push({ sample, promptTokens: protocol.promptTokens(question.question, hint), tokens });
    await pacer.pause();
  }
  const fitting = contexts.filter(
    ({ promptTokens, tokens }) => promptTokens.length + tokens.length <= maxTokens,
  );
  const scores = await scoreBehind(teacher, fitting, options);
  return {
    logProbs: new Map(fitting.map(({ sample }, i) => [sample, scores[i] as Float32Array])),
    overBudget: contexts.length - fitting.length,
  };
}

/** Contexts that are laid out and scored in one call: they cost memory, and time on the event loop. */
const PART_CONTEXTS = 32;

/** Where nothing was written nothing is scored: such a prompt may fit no context. */
async function scoreBehind(
  model: Pick<Policy, "score">,
  contexts: readonly { promptTokens: Int32Array; tokens: Int32Array }[],
  { temperature, microBatchTokens, signal }: TeacherOptions,
): Promise<Float32Array[]> {
  const options = { temperature, ...(microBatchTokens === undefined ? {} : { microBatchTokens }), signal };
  const scores: Float32Array[] = [];
  for (let start = 0; start < contexts.length; start += PART_CONTEXTS) {
    const part = contexts.slice(start, start + PART_CONTEXTS);
    const written = part.filter(({ tokens }) => tokens.length > 0);
    const sequences = written.map(({ promptTokens, tokens }) => {
      const whole = new Int32Array(promptTokens.length + tokens.length);
      whole.set(promptTokens);
      whole.set(tokens, promptTokens.length);
      return { tokens: whole, first: Math.max(1, promptTokens.length) };
    });
    const scored = (await model.score(sequences, options)).values();
    for (const { promptTokens, tokens } of part) {
      const logProbs = tokens.length > 0 ? scored.next().value?.logProbs : undefined;
      scores.push(logProbs?.slice(promptTokens.length) ?? new Float32Array());
    }
  }
  return scores;
}

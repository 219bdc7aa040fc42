import type { AbortOptions } from "../abort.js";
import type { BoundProtocol } from "../agent/bound-protocol.js";
import { policyMask, scopeMask, type TokenScope } from "../agent/masks.js";
import { startPaced } from "../agent/pacer.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { Policy } from "../policy/policy.js";
import type { ScoredSequence, SequenceToScore } from "../policy/policy-options.js";
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

/** Options of {@link scoreHinted}. */
export interface HintedOptions extends TeacherOptions {
  /** Tokens of the distillation term, which alone are scored. @defaultValue `"search"` */
  scope?: TokenScope;
}

/**
 * Log-probs of trajectories under a model, in the context that they were sampled in.
 *
 * @returns Per trajectory one log-prob per token of `tokens`, 0 at those that were inserted.
 */
export function scorePlain(
  model: Pick<Policy, "score">,
  trajectories: readonly Trajectory[],
  options: TeacherOptions,
): Promise<Float32Array[]> {
  const scored = startPaced(parts(trajectories), (part) =>
    scorePart(
      model,
      part.map((trajectory) => ({ ...trajectory, mask: policyMask(trajectory) })),
      options,
    ),
  );
  return scored.then((scores) => scores.flat());
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
  { scope = "search", ...options }: HintedOptions,
): Promise<HintedScores> {
  // The trajectories of a group have one question, and often one critique.
  const prompts = new Map<string, Int32Array>();
  const hintedPrompt = (question: string, hint: string) => {
    const key = JSON.stringify([question, hint]);
    const tokens = prompts.get(key) ?? protocol.promptTokens(question, hint);
    prompts.set(key, tokens);
    return tokens;
  };
  // Prompts are encoded while the engine works on the part before.
  const scored = await startPaced(parts([...hints]), async (part) => {
    const contexts = part.map(([sample, hint]) => {
      const { trajectory } = sample;
      const promptTokens = hintedPrompt(trajectory.question.question, hint);
      return { sample, promptTokens, tokens: trajectory.tokens, mask: scopeMask(trajectory, scope) };
    });
    const fitting = contexts.filter(
      ({ promptTokens, tokens }) => promptTokens.length + tokens.length <= maxTokens,
    );
    const scores = await scorePart(teacher, fitting, options);
    return fitting.map(({ sample }, i): [TrainingSample, Float32Array] => [
      sample,
      scores[i] as Float32Array,
    ]);
  });
  const logProbs = new Map(scored.flat());
  return { logProbs, overBudget: hints.size - logProbs.size };
}

/** Contexts that are laid out and scored in one call: they cost memory, and time on the event loop. */
const PART_CONTEXTS = 32;

function parts<Item>(items: readonly Item[]): Item[][] {
  const { length } = items;
  return Array.from({ length: Math.ceil(length / PART_CONTEXTS) }, (_, i) =>
    items.slice(i * PART_CONTEXTS, (i + 1) * PART_CONTEXTS),
  );
}

/**
 * Where nothing is wanted nothing is scored: such a prompt may fit no context. Equal contexts, of which a confident
 * policy writes many in a group, are scored once.
 */
async function scorePart(
  model: Pick<Policy, "score">,
  contexts: readonly { promptTokens: Int32Array; tokens: Int32Array; mask: Uint8Array }[],
  { temperature, microBatchTokens, signal }: TeacherOptions,
): Promise<Float32Array[]> {
  const options = { temperature, ...(microBatchTokens === undefined ? {} : { microBatchTokens }), signal };
  const places = new Map<string, number>();
  const sequences: SequenceToScore[] = [];
  const placeOf = contexts.map(({ promptTokens, tokens, mask }) => {
    if (!mask.includes(1)) return undefined;
    const length = promptTokens.length + tokens.length;
    const first = Math.max(1, promptTokens.length);
    const whole = { tokens: new Int32Array(length), first, mask: new Uint8Array(length) };
    whole.tokens.set(promptTokens);
    whole.tokens.set(tokens, promptTokens.length);
    whole.mask.set(mask, promptTokens.length);
    const key = [whole.tokens, whole.mask].map(({ buffer }) => Buffer.from(buffer).toString("latin1")).join();
    const place = places.get(key) ?? sequences.push(whole) - 1;
    places.set(key, place);
    return place;
  });
  const scores = sequences.length > 0 ? await model.score(sequences, options) : [];
  return contexts.map(({ promptTokens, tokens }, i) => {
    const place = placeOf[i];
    if (place === undefined) return new Float32Array(tokens.length);
    return (scores[place] as ScoredSequence).logProbs.slice(promptTokens.length);
  });
}

import type { AbortOptions } from "../abort.js";
import type { TokenScope } from "../agent/masks.js";
import { HindsearchError } from "../errors.js";
import type { BatchTotals } from "../policy/batch.js";
import type { DistillTerm, KlTerm, Objective, PolicyTerm } from "../policy/objective.js";
import type { Policy } from "../policy/policy.js";
import type { ObjectiveResult, StepOptions } from "../policy/policy-options.js";
import { partsOf, totalsOf, trainingBatch } from "./batch.js";
import type { TrainingSample } from "./samples.js";
import { type LearningRateSchedule, learningRateAt } from "./schedule.js";
import type { GradientHealth } from "./signal.js";

/** What a policy is updated with. */
export interface UpdateOptions extends AbortOptions {
  /** The clipped policy gradient. */
  policyTerm: PolicyTerm;
  /** KL to the reference, which all samples must then have log-probs of. */
  kl: KlTerm | undefined;
  /** The HindSearch term with the weight of this step. */
  distill: DistillTerm | undefined;
  /** Tokens of the HindSearch term. */
  tokenScope: TokenScope;
  /** That the samples were drawn with. */
  temperature: number;
  /** Parts into which the groups are shared out. */
  miniBatches: number;
  /** By the optimizer steps of the policy. */
  learningRate: LearningRateSchedule;
  /** AdamW. */
  optimizer: Omit<StepOptions, "learningRate">;
  /** Memory of one pass against its speed. */
  microBatchTokens: number | undefined;
  /** Less memory for a third more time. */
  checkpointActivations: boolean;
  /** Hears of every mini-batch. */
  onProgress?: (progress: { done: number; total: number }) => void;
}

/** What the engine found of a mini-batch; see {@link ObjectiveResult}. */
export type ObjectiveTerms = Omit<ObjectiveResult, "logProbs">;

/** What one optimizer step did. */
export interface UpdateResult extends ObjectiveTerms {
  /** Global norm of the gradient before clipping; `null` where none was computed. */
  gradientNorm: number | null;
  /** That it was made with. */
  learningRate: number;
  /**
   * Why the weights are as before: `non-finite`, the gradient was no number; `empty`, the mini-batch had no token
   * that the policy wrote.
   */
  skipped: "non-finite" | "empty" | null;
}

/** The loss terms that are on. */
export function objectiveOf({ policyTerm, kl, distill }: UpdateOptions): Objective {
  return { policy: policyTerm, ...(kl && { kl }), ...(distill && { distill }) };
}

/**
 * Shares whole groups out into mini-batches, as evenly as they go, in order. There are never more mini-batches than
 * groups.
 */
export function splitGroups<Group>(groups: readonly Group[], miniBatches: number): Group[][] {
  const parts = Math.min(miniBatches, groups.length);
  const border = (part: number) => Math.round((part * groups.length) / parts);
  return Array.from({ length: parts }, (_, part) => groups.slice(border(part), border(part + 1)));
}

/**
 * One optimizer step per mini-batch. Each term of the loss has one denominator, counted over its mini-batch.
 *
 * @param policy - Is changed.
 * @param groups - Samples of a step by group.
 * @param options - See {@link UpdateOptions}.
 */
export async function updatePolicy(
  policy: Policy,
  groups: readonly (readonly TrainingSample[])[],
  options: UpdateOptions,
): Promise<UpdateResult[]> {
  const results: UpdateResult[] = [];
  const parts = splitGroups(groups, options.miniBatches);
  for (const part of parts) {
    options.onProgress?.({ done: results.length, total: parts.length });
    const samples = part.flat();
    const learningRate = learningRateAt(options.learningRate, policy.optimizerStep);
    const totals = totalsOf(samples, options.tokenScope);
    if (totals.policyTokens === 0) {
      results.push({ ...NOTHING, gradientNorm: null, learningRate, skipped: "empty" });
      continue;
    }
    const terms = await addGradients(policy, samples, totals, objectiveOf(options), options);
    const { gradientNorm, skipped } = await policy.step({ ...options.optimizer, learningRate });
    results.push({ ...terms, gradientNorm, learningRate, skipped: skipped ? "non-finite" : null });
  }
  return results;
}

/** Tokens whose columns are laid out at once: they cost memory, and time on the event loop. */
const PART_TOKENS = 16_384;

/** Adds the gradient of an objective over a mini-batch, part by part under the denominators of the whole. */
async function addGradients(
  policy: Policy,
  samples: readonly TrainingSample[],
  totals: BatchTotals,
  objective: Objective,
  { tokenScope, temperature, microBatchTokens, checkpointActivations, signal }: UpdateOptions,
): Promise<ObjectiveTerms> {
  const pass = {
    temperature,
    totals,
    checkpointActivations,
    ...(microBatchTokens === undefined ? {} : { microBatchTokens }),
    signal,
  };
  let sum = NOTHING;
  try {
    for (const part of partsOf(samples, PART_TOKENS)) {
      const { logProbs: _, ...terms } = await policy.forwardBackward(
        trainingBatch(part, tokenScope),
        objective,
        pass,
      );
      sum = addTerms(sum, terms);
    }
  } catch (error) {
    await policy.zeroGradients();
    throw error;
  }
  return sum;
}

function addTerms(a: ObjectiveTerms, b: ObjectiveTerms): ObjectiveTerms {
  const tokens = a.policyTokens + b.policyTokens;
  const add = (name: keyof ObjectiveTerms) => a[name] + b[name];
  const largest = (name: keyof ObjectiveTerms) => Math.max(a[name], b[name]);
  const mean = (name: keyof ObjectiveTerms) =>
    tokens === 0 ? a[name] : (a[name] * a.policyTokens + b[name] * b.policyTokens) / tokens;
  return {
    loss: add("loss"),
    policyLoss: add("policyLoss"),
    klLoss: add("klLoss"),
    distillLoss: add("distillLoss"),
    crossEntropy: add("crossEntropy"),
    policyTokens: tokens,
    distillTokens: add("distillTokens"),
    clipFractionLow: mean("clipFractionLow"),
    clipFractionHigh: mean("clipFractionHigh"),
    dualClipFraction: mean("dualClipFraction"),
    ratioMean: mean("ratioMean"),
    ratioMax: largest("ratioMax"),
    logRatioMaxAbs: largest("logRatioMaxAbs"),
    ratioClamped: add("ratioClamped"),
    klClamped: add("klClamped"),
  };
}

/**
 * Gradients of the policy and the distillation term apart, on the first mini-batch: two passes for their norms, and a third on top of the second
 * for the norm of their sum, which gives the cosine. Leaves no gradient behind, so a step comes out the same whether or
 * not it was measured.
 *
 * @returns `undefined` if a term is off or has no token.
 */
export async function measureGradients(
  policy: Policy,
  groups: readonly (readonly TrainingSample[])[],
  options: UpdateOptions,
): Promise<GradientHealth | undefined> {
  const { policyTerm, distill } = options;
  const samples = splitGroups(groups, options.miniBatches)[0]?.flat() ?? [];
  const totals = totalsOf(samples, options.tokenScope);
  if (!distill || totals.distillTokens === 0) return undefined;
  const pass = async (objective: Objective) => {
    await addGradients(policy, samples, totals, objective, options);
    return policy.gradientNorm();
  };
  try {
    const policyNorm = await pass({ policy: policyTerm });
    await policy.zeroGradients();
    const distillNorm = await pass({ distill });
    const sumNorm = await pass({ policy: policyTerm });
    const product = policyNorm * distillNorm;
    return {
      policy: policyNorm,
      distill: distillNorm,
      ratio: policyNorm === 0 ? null : distillNorm / policyNorm,
      cosine: product === 0 ? null : (sumNorm ** 2 - policyNorm ** 2 - distillNorm ** 2) / (2 * product),
    };
  } finally {
    await policy.zeroGradients();
  }
}

/**
 * Counts updates that were skipped in a row for a gradient that is not finite.
 *
 * @param before - Of the steps before.
 * @throws {@link HindsearchError} `NON_FINITE` when there are more than `most`.
 */
export function countSkipped(before: number, updates: readonly UpdateResult[], most: number): number {
  let inARow = before;
  for (const { skipped } of updates) {
    if (skipped === "empty") continue;
    inARow = skipped === null ? 0 : inARow + 1;
    if (inARow <= most) continue;
    throw new HindsearchError(
      "NON_FINITE",
      `The gradient was not finite ${inARow} times in a row, more than maxSkippedUpdates (${most}) allows. The weights ` +
        "are those of the last good update. Lower the learning rate or the weights of the terms, or look at the last " +
        "trajectories of the run.",
    );
  }
  return inARow;
}

const NOTHING: ObjectiveTerms = {
  loss: 0,
  policyLoss: 0,
  klLoss: 0,
  distillLoss: 0,
  crossEntropy: 0,
  policyTokens: 0,
  distillTokens: 0,
  clipFractionLow: 0,
  clipFractionHigh: 0,
  dualClipFraction: 0,
  ratioMean: 1,
  ratioMax: 1,
  logRatioMaxAbs: 0,
  ratioClamped: 0,
  klClamped: 0,
};

import { countMask, countPolicyTokens, policyMask, scopeMask, type TokenScope } from "../agent/masks.js";
import { trajectoryLength } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import type { BatchTotals, TrainingSequence } from "../policy/batch.js";
import type { TrainingSample } from "./samples.js";

/**
 * Samples as training sequences: prompt and trajectory in one, each column shifted behind the prompt.
 *
 * Left out are samples that nothing can be learned from: without reward (a search failed), and without a token that
 * the policy wrote. A sample has tokens in the distillation mask if and only if it has teacher log-probs.
 *
 * @param samples - Of one mini-batch.
 * @param scope - Tokens of the distillation term.
 * @throws {@link HindsearchError} `INTERNAL` if a column is not as long as the trajectory's tokens.
 */
export function trainingBatch(samples: readonly TrainingSample[], scope: TokenScope): TrainingSequence[] {
  return samples.filter(isTrained).map((sample) => {
    const { trajectory, advantage, referenceLogProbs, teacherLogProbs } = sample;
    const behindPrompt = columnsOf(sample);
    const sequence: TrainingSequence = {
      tokens: behindPrompt(trajectory.tokens, trajectory.promptTokens),
      policyMask: behindPrompt(policyMask(trajectory)),
      oldLogProbs: behindPrompt(trajectory.logProbs),
      advantages: advantage ?? 0,
    };
    if (referenceLogProbs) sequence.referenceLogProbs = behindPrompt(referenceLogProbs);
    if (teacherLogProbs) {
      sequence.distillMask = behindPrompt(scopeMask(trajectory, scope));
      sequence.teacherLogProbs = behindPrompt(teacherLogProbs);
    }
    return sequence;
  });
}

/**
 * What the terms of the loss are divided by: counts over all samples of a mini-batch, for the parts that it is
 * computed in.
 */
export function totalsOf(samples: readonly TrainingSample[], scope: TokenScope): BatchTotals {
  const trained = samples.filter(isTrained);
  const policy = trained.map(({ trajectory }) => countPolicyTokens(trajectory));
  const distill = trained.map(({ trajectory, teacherLogProbs }) =>
    teacherLogProbs ? countMask(scopeMask(trajectory, scope)) : 0,
  );
  const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0);
  const sequences = (counts: number[]) => counts.filter((count) => count > 0).length;
  return {
    policyTokens: sum(policy),
    policySequences: sequences(policy),
    sequences: trained.length,
    distillTokens: sum(distill),
    distillSequences: sequences(distill),
    weight: 0,
  };
}

/** Cuts a list into parts of at most `tokens` tokens of prompt and trajectory each, or one longer sample. */
export function partsOf(samples: readonly TrainingSample[], tokens: number): TrainingSample[][] {
  const parts: TrainingSample[][] = [];
  let room = 0;
  for (const sample of samples) {
    const length = trajectoryLength(sample.trajectory);
    if (length > room) {
      parts.push([]);
      room = tokens;
    }
    parts.at(-1)?.push(sample);
    room -= length;
  }
  return parts;
}

function isTrained({ trajectory, advantage }: TrainingSample): boolean {
  return advantage !== null && trajectory.tokens.length > 0;
}

/** Puts a column of the trajectory's tokens behind its prompt, where it is 0 unless `prompt` says otherwise. */
function columnsOf({ trajectory }: TrainingSample) {
  const { id, promptTokens, tokens } = trajectory;
  return <Column extends Int32Array | Float32Array | Uint8Array>(column: Column, prompt?: Column): Column => {
    if (column.length !== tokens.length) {
      throw new HindsearchError(
        "INTERNAL",
        `Trajectory ${id} has ${tokens.length} tokens, but a column of its sample has ${column.length} entries.`,
      );
    }
    const Type = column.constructor as new (length: number) => Column;
    const whole = new Type(promptTokens.length + tokens.length);
    if (prompt) whole.set(prompt);
    whole.set(column, promptTokens.length);
    return whole;
  };
}

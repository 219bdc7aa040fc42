/** Speed of GRPO training steps with KL, optimizer included. */
import { Policy, type TrainingSequence } from "hindsearch";
import type { Type } from "../limits.js";
import { configOf, MODELS, type ModelShape, someTokens } from "../models.js";
import { median, type Sample } from "../rounds.js";

/** What to train. */
export interface TrainTask {
  model: ModelShape["name"];
  compute: Type;
  batch: number;
  length: number;
  checkpointActivations: boolean;
  /** Measured steps, after one that is not. */
  steps: number;
}

/** Tokens a second: median of the steps. */
export async function work(task: TrainTask): Promise<Sample> {
  const { model, compute, batch, length, checkpointActivations, steps } = task;
  const shape = MODELS[model];
  using policy = await Policy.initialize({ config: configOf(shape), compute, seed: 1 });
  const sequences = Array.from({ length: batch }, (_, b): TrainingSequence => {
    const policyMask = new Uint8Array(length).fill(1);
    policyMask[0] = 0;
    const logProbs = new Float32Array(length).fill(-Math.log(shape.vocabulary));
    return {
      tokens: someTokens(length, shape, b),
      policyMask,
      oldLogProbs: logProbs,
      referenceLogProbs: logProbs,
      advantages: b % 2 === 0 ? 1 : -1,
    };
  });
  const rates: number[] = [];
  for (let step = 0; step <= steps; step++) {
    const started = performance.now();
    await policy.forwardBackward(sequences, { policy: {}, kl: {} }, { checkpointActivations });
    await policy.step({ learningRate: 1e-6 });
    if (step > 0) rates.push((1e3 * batch * length) / (performance.now() - started));
  }
  return { rate: median(rates) };
}

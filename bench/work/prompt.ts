/** Speed of taking in a prompt. */
import { Policy } from "hindsearch";
import type { Type } from "../limits.js";
import { configOf, MODELS, type ModelShape, someTokens } from "../models.js";
import { median, type Sample } from "../rounds.js";

/** What to take in. */
export interface PromptTask {
  model: ModelShape["name"];
  compute: Type;
  length: number;
}

/** Tokens a second until the first new token is there: median of three prompts after a first one. */
export async function work({ model, compute, length }: PromptTask): Promise<Sample> {
  const shape = MODELS[model];
  using policy = await Policy.initialize({ config: configOf(shape), compute, seed: 1 });
  using decoder = await policy.createDecoder({ maxBatch: 1, cacheTokens: 2 * length });
  const rates: number[] = [];
  for (let repetition = 0; repetition < 4; repetition++) {
    const started = performance.now();
    const sequence = decoder.submit(someTokens(length, shape, repetition), {
      maxNewTokens: 1,
      endTokens: [],
    });
    await decoder.next();
    if (repetition > 0) rates.push((1e3 * length) / (performance.now() - started));
    decoder.release(sequence);
  }
  return { rate: median(rates) };
}

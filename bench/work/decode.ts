/** Decoding speed of one model at several batch sizes. */
import { Policy } from "hindsearch";
import type { Type } from "../limits.js";
import { configOf, MODELS, type ModelShape, someTokens } from "../models.js";
import { median, type Sample } from "../rounds.js";

/** What to decode. */
export interface DecodeTask {
  model: ModelShape["name"];
  compute: Type;
  batches: readonly number[];
  prompt: number;
  newTokens: number;
  /** Times each batch size is measured. */
  repeats: number;
}

/**
 * Tokens a second by batch size, after a prompt that all sequences share: median of the repeats. Sampling is counted,
 * the prompt is not.
 */
export async function work({
  model,
  compute,
  batches,
  prompt,
  newTokens,
  repeats,
}: DecodeTask): Promise<Sample> {
  const shape = MODELS[model];
  using policy = await Policy.initialize({ config: configOf(shape), compute, seed: 1 });
  const rates: Record<string, number> = {};
  for (const batch of batches) {
    using decoder = await policy.createDecoder({
      maxBatch: batch,
      cacheTokens: prompt + (batch + 1) * (newTokens + 32),
    });
    const first = decoder.submit(someTokens(prompt, shape), { maxNewTokens: 0, reserve: prompt + newTokens });
    await decoder.next();
    const decode = async (seed: number, maxNewTokens: number) => {
      const streams = Array.from({ length: batch }, (_, stream) => ({ seed, stream }));
      const sequences = decoder.fork(first, { streams, maxNewTokens, endTokens: [] });
      let tokens = 0;
      for (let left = batch; left > 0; ) {
        for (const segment of await decoder.next()) {
          tokens += segment.tokens.length;
          left--;
        }
      }
      for (const sequence of sequences) decoder.release(sequence);
      return tokens;
    };
    await decode(1, 4);
    const samples: number[] = [];
    for (let repeat = 0; repeat < repeats; repeat++) {
      const started = performance.now();
      const tokens = await decode(2 + repeat, newTokens);
      samples.push((1e3 * tokens) / (performance.now() - started));
    }
    rates[`batch ${batch}`] = median(samples);
  }
  return rates;
}

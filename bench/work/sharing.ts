/** Counts what a group that shares its prompt costs. */
import { type DecoderStats, Policy } from "hindsearch";
import { configOf, MODELS, someTokens } from "../models.js";

/** A group and its prompt. */
export interface SharingTask {
  group: number;
  prompt: number;
  newTokens: number;
}

/** The decoder's counters after the group has decoded. */
export async function work({ group, prompt, newTokens }: SharingTask): Promise<DecoderStats> {
  const shape = MODELS.tiny;
  using policy = await Policy.initialize({ config: configOf(shape), seed: 1 });
  using decoder = await policy.createDecoder({ maxBatch: group, cacheTokens: (group + 1) * prompt });
  const options = { maxNewTokens: newTokens, endTokens: [] };
  // As a rollout does it: the first of the group takes the prompt in, the others fork from it.
  const first = decoder.submit(someTokens(prompt, shape), { ...options, stream: 0 });
  const streams = Array.from({ length: group - 1 }, (_, i) => ({ stream: i + 1 }));
  decoder.fork(first, { ...options, streams });
  for (let left = group; left > 0; ) left -= (await decoder.next()).length;
  return decoder.stats();
}

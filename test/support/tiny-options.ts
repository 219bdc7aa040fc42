import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
} from "../../examples/own-loop/tiny-world.js";
import type { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";

/** A run of four short steps in the tiny world of the examples. */
export const OPTIONS = {
  retriever: TINY_RETRIEVER,
  judge: TINY_JUDGE,
  questions: TINY_QUESTIONS,
  protocol: TINY_PROTOCOL,
  steps: 4,
  questionsPerStep: 6,
  groupSize: 5,
  learningRate: { kind: "constant", learningRate: 2e-3 },
  distillation: { weight: 0.5 },
  decoder: { cacheTokens: 8192 },
  measureEvery: 2,
  seed: 3,
} satisfies Omit<HindSearchOptions, "policy">;

/** Every weight of a policy in one list. */
export async function allWeights(policy: Policy): Promise<number[]> {
  const arrays = await Promise.all(policy.parameters.map(({ name }) => policy.weight(name)));
  return arrays.flatMap((array) => [...array]);
}

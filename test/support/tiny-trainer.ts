import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { allWeights, OPTIONS } from "./tiny-options.js";

export { allWeights, OPTIONS };

/** What {@link tinyTrainer} trained. */
export interface TinyRun {
  policy: Policy;
  results: TrainingStepResult[];
  weights: number[];
}

/** Trains in the tiny world, from the same warm policy each time, while the tests of the calling file run. */
export function tinyTrainer() {
  let root = "";
  const policies: Policy[] = [];

  /** A path in a folder that is deleted after the tests. */
  const scratch = (...names: string[]) => join(root, ...names);

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "hindsearch-trainer-"));
    using policy = await warmPolicy();
    await policy.save(scratch("warm"));
  });
  afterAll(async () => {
    for (const policy of policies) policy.dispose();
    await rm(root, { recursive: true, force: true });
  });

  /** The warm policy anew. */
  async function fresh(): Promise<Policy> {
    const policy = await Policy.load(scratch("warm"), { compute: "f32" });
    policies.push(policy);
    return policy;
  }

  /** Trains to the end; unless a policy is given, a fresh one. */
  async function train(options: Partial<HindSearchOptions> = {}): Promise<TinyRun> {
    const policy = options.policy ?? (await fresh());
    const results: TrainingStepResult[] = [];
    for await (const result of new HindSearchTrainer({ ...OPTIONS, ...options, policy }))
      results.push(result);
    return { policy, results, weights: await allWeights(policy) };
  }

  return { scratch, fresh, train };
}

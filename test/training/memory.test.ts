import { describe, expect, test } from "vitest";
import { tinyPolicy } from "../../examples/own-loop/tiny-world.js";
import { engine } from "../../lib/policy/engine.js";
import type { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import { SupervisedTrainer } from "../../lib/training/supervised.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";

const MIB = 2 ** 20;
const below = (bytes: number) => process.memoryUsage.rss() + bytes;
const { fresh } = tinyTrainer();

/** Iterates once, which must be refused without a byte allocated; the message. */
async function refused(policy: Policy, steps: AsyncIterable<unknown>): Promise<string> {
  const before = { bytes: policy.bytes, peak: engine.memory.peakBytes, rss: process.memoryUsage.rss() };
  const error = await steps[Symbol.asyncIterator]()
    .next()
    .then(
      () => undefined,
      (thrown) => thrown,
    );
  expect(error).toMatchObject({ code: "OUT_OF_MEMORY" });
  expect({ bytes: policy.bytes, peak: engine.memory.peakBytes }).toEqual({
    bytes: before.bytes,
    peak: before.peak,
  });
  expect(process.memoryUsage.rss() - before.rss).toBeLessThan(16 * MIB);
  return error.message;
}

describe("a run that cannot fit ends before it begins", () => {
  const run = async (options: Partial<HindSearchOptions>) => {
    const policy = await fresh();
    const message = await refused(policy, new HindSearchTrainer({ ...OPTIONS, ...options, policy }));
    expect((await policy.score([{ tokens: [1, 2, 3] }])).length).toBe(1);
    return message;
  };

  test("the cache", async () => {
    const decoder = { cacheTokens: 2 ** 20 };
    const message = await run({ decoder, memoryLimit: below(64 * MIB) });
    expect(message).toMatch(
      /Training, at its largest in [a-z ]+, needs \d+(\.\d+)? [MG]iB, .* more than is held now; /,
    );
    expect(message).toMatch(/lower decoder\.cacheTokens \(1048576\)/);
  });

  test("the update", async () => {
    const wide = { questionsPerStep: 2000, memoryLimit: below(16 * MIB), microBatchTokens: 2 ** 17 };
    expect(await run({ ...wide, checkpointActivations: false })).toMatch(
      /in the update,.*activations \d+.*set checkpointActivations to true; lower microBatchTokens \(131072\)/,
    );
    expect(await run(wide)).toMatch(/to need less: (?!.*checkpointActivations).*lower microBatchTokens/i);
  });

  test("the trajectories", async () => {
    const message = await run({ questionsPerStep: 200_000, memoryLimit: below(100 * MIB) });
    expect(message).toMatch(/trajectories 1\.4\d GiB.*lower questionsPerStep or groupSize \(1000000/);
  });

  test("supervised", async () => {
    using policy = await tinyPolicy();
    const tokens = Array.from({ length: 64 }, () => 5);
    const examples = Array.from({ length: 2000 }, () => ({
      tokens,
      weights: tokens.map((_, t) => +(t > 0)),
    }));
    const learningRate = { kind: "constant", learningRate: 1e-3 } as const;
    const options = { policy, steps: 1, learningRate, batchSize: 2000, microBatchTokens: 2 ** 17 };
    for (const source of [examples, () => examples]) {
      const trainer = new SupervisedTrainer({ ...options, examples: source, memoryLimit: below(8 * MIB) });
      expect(await refused(policy, trainer)).toMatch(/Training.*the update.*microBatchTokens \(131072\)/);
    }
  });
});

test("within its limit it runs, as it does without one", async () => {
  const policy = await fresh();
  for (const memoryLimit of [below(256 * MIB), null]) {
    const trainer = new HindSearchTrainer({ ...OPTIONS, steps: 1, policy, memoryLimit });
    const { phases, settings } = trainer.memory();
    expect(Object.keys(phases)).toEqual(["load", "rollout", "scoring", "update"]);
    expect(settings).toMatchObject({ sequences: 30, longestSequence: OPTIONS.protocol.maxTokens });
    let steps = 0;
    for await (const _ of trainer) steps++;
    expect(steps).toBe(1);
  }
});

import { describe, expect, test } from "vitest";
import { tinyPolicy } from "../../examples/own-loop/tiny-world.js";
import { totalsOf, trainingBatch } from "../../lib/training/batch.js";
import { countSkipped, splitGroups, type UpdateResult, updatePolicy } from "../../lib/training/update.js";
import { sampleOf } from "./samples.js";

describe("splitGroups", () => {
  test.each([
    [5, 2, [3, 2]],
    [6, 2, [3, 3]],
    [7, 3, [2, 3, 2]],
    [2, 4, [1, 1]],
    [1, 1, [1]],
    [0, 2, []],
  ])("%i groups in %i parts", (groups, parts, sizes) => {
    const all = Array.from({ length: groups }, (_, i) => i);
    const split = splitGroups(all, parts);
    expect(split.map(({ length }) => length)).toEqual(sizes);
    expect(split.flat()).toEqual(all);
  });
});

describe("countSkipped", () => {
  const updates = (...skipped: UpdateResult["skipped"][]) =>
    skipped.map((value) => ({ skipped: value }) as UpdateResult);
  test("counts in a row, over steps, and stops the run", () => {
    expect(countSkipped(0, updates("non-finite", null, "non-finite"), 2)).toBe(1);
    expect(countSkipped(1, updates("non-finite"), 2)).toBe(2);
    expect(() => countSkipped(2, updates("non-finite"), 2)).toThrow(/3 times in a row/);
    expect(countSkipped(2, updates("empty"), 2)).toBe(2);
    expect(countSkipped(2, updates(null), 2)).toBe(0);
  });
});

describe("updatePolicy", () => {
  const options = {
    policyTerm: {},
    kl: undefined,
    distill: undefined,
    tokenScope: "search",
    temperature: 1,
    miniBatches: 2,
    learningRate: { kind: "constant", learningRate: 1e-3 },
    optimizer: {},
    microBatchTokens: undefined,
    checkpointActivations: true,
  } as const;
  const written = () => sampleOf({ tokens: Int32Array.of(9, 10, 11, 12, 13, 14, 15) });

  test("a mini-batch without a token of the policy is skipped and leaves the weights alone", async () => {
    using policy = await tinyPolicy();
    const before = await policy.weight("model.embed_tokens.weight");
    const foreign = sampleOf({}, {}, ["observation", "observation"]);
    const lost = sampleOf({ status: "search failed" }, { reward: null, advantage: null, failed: false });
    const results = await updatePolicy(policy, [[foreign], [lost]], options);
    expect(results.map(({ skipped, gradientNorm, loss }) => [skipped, gradientNorm, loss])).toEqual([
      ["empty", null, 0],
      ["empty", null, 0],
    ]);
    expect(policy.optimizerStep).toBe(0);
    expect(await policy.weight("model.embed_tokens.weight")).toEqual(before);
  });

  test("a gradient that is not finite is skipped, counted, and leaves the weights alone", async () => {
    using policy = await tinyPolicy();
    const before = await policy.weight("model.embed_tokens.weight");
    // Each is a 32-bit number, their product is not.
    const sample = sampleOf(written().trajectory, { advantage: 3e38 });
    const results = await updatePolicy(policy, [[sample], [sample]], {
      ...options,
      policyTerm: { weight: 3e38 },
    });
    expect(results.map(({ skipped }) => skipped)).toEqual(["non-finite", "non-finite"]);
    expect(await policy.weight("model.embed_tokens.weight")).toEqual(before);
    const good = await updatePolicy(policy, [[written()]], options);
    expect(good.map(({ skipped }) => skipped)).toEqual([null]);
    expect(await policy.weight("model.embed_tokens.weight")).not.toEqual(before);
  });

  test("parts of a mini-batch under the totals of the whole add up to its loss and gradient", async () => {
    using policy = await tinyPolicy();
    const samples = [
      written(),
      sampleOf({ tokens: Int32Array.of(9, 10, 12) }, { advantage: 1.5 }, ["tag", "search", "tag"]),
    ];
    for (const sample of samples) sample.teacherLogProbs = new Float32Array(sample.trajectory.tokens.length);
    const objective = { policy: {}, distill: {} };
    const gradient = () => policy.gradient("model.layers.0.mlp.up_proj.weight");
    const whole = await policy.forwardBackward(trainingBatch(samples, "search"), objective);
    const expected = await gradient();
    await policy.zeroGradients();
    let loss = 0;
    for (const sample of samples) {
      const totals = totalsOf(samples, "search");
      loss += (await policy.forwardBackward(trainingBatch([sample], "search"), objective, { totals })).loss;
    }
    expect(loss).toBeCloseTo(whole.loss, 6);
    for (const [i, value] of (await gradient()).entries())
      expect(value).toBeCloseTo(expected[i] as number, 6);
  });

  test("the learning rate goes by optimizer steps", async () => {
    using policy = await tinyPolicy();
    const learningRate = { kind: "linear", learningRate: 1, warmupSteps: 2, totalSteps: 4 } as const;
    const sample = written();
    const rates = [];
    for (let step = 0; step < 2; step++) {
      const results = await updatePolicy(policy, [[sample], [sample]], { ...options, learningRate });
      rates.push(...results.map((result) => result.learningRate));
    }
    expect(rates).toEqual([0, 0.5, 1, 0.5]);
  });
});

import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { engine } from "../../../lib/policy/engine.js";
import { estimateMemory } from "../../../lib/policy/memory/estimate.js";
import { formatEstimate } from "../../../lib/policy/memory/report.js";
import {
  decodeWorkspaceBytes,
  headSlab,
  rotaryBytes,
  scoringSlabs,
  trainingSlabs,
} from "../../../lib/policy/memory/sizes.js";
import { describeShared, sharedPath } from "../../support/shared.js";
import { randomTokens, smallConfigs, smallPolicy } from "../../support/small-policy.js";

const total = (bytes: readonly number[]) => bytes.reduce((sum, size) => sum + size, 0);

describeShared("Qwen2.5-0.5B by hand", () => {
  const file = sharedPath("data", "configs", "Qwen2.5-0.5B-Instruct", "config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  const options = { compute: "bf16", threads: 2, tokenLimit: 151_936 } as const;

  test("weights, packed weights, gradients and moments", () => {
    const { parameters, parts } = estimateMemory(config, options);
    const layer = 896 * 1152 + 1152 + 896 * 896 + 3 * 896 * 4864 + 2 * 896;
    expect(parameters).toBe(151_936 * 896 + 24 * layer + 896);
    expect(parameters).toBe(494_032_768);
    const packed = 2 * (24 * (896 * 1152 + 896 * 896 + 3 * 896 * 4864) + 151_936 * 896);
    expect(parts).toMatchObject({
      weights: 4 * parameters,
      packedWeights: packed,
      frozenCopy: 4 * parameters + packed,
      gradients: 4 * parameters,
      moments: 8 * parameters,
    });
    expect(estimateMemory(config, { ...options, compute: "f32" }).parts.packedWeights).toBe(2 * packed);
  });

  test("the cache: 2 x layers x key heads x head size floats a token, by pages of 16, and 20 bytes a page", () => {
    const decoder = { cacheTokens: 1000, maxBatch: 8, prefillTokens: 64 };
    const { parts } = estimateMemory(config, { ...options, decoder });
    expect(parts.cache).toBe(63 * (16 * 2 * 24 * 2 * 64 * 4 + 20));
    const logits = 8 * 151_936 * 4 + 151_937 * 4;
    const rows = 72 * 4 * (1152 + 896 + 2 * 4864 + 896 + 4864 + 3 * 896);
    expect(parts.decoder).toBe(logits + rows);
  });

  test("activations: every layer's input, and one layer or all of them", () => {
    const pass = { ...options, microBatchTokens: 1024, longestSequence: 128, frozenCopy: false };
    const residuals = 26 * 896;
    const pages = 8 * 8 * 2 * 2 * 64 * 16;
    const tape = 1152 + 896 + 2 * 4864 + 1 + 2 * 14 + 896 + 1;
    const scratch = 896 + 4864 + 1152 + 896;
    const bytes = (layers: number) => 4 * (1024 * (residuals + layers * tape + scratch) + pages);
    expect(estimateMemory(config, pass).parts.activations).toBe(bytes(1));
    expect(estimateMemory(config, { ...pass, checkpointActivations: false }).parts.activations).toBe(
      bytes(24),
    );
  });

  test("phases hold their parts, and the peak is the largest", () => {
    const { phases, peak, parts } = estimateMemory(config, options);
    expect(Object.keys(phases)).toEqual(["load", "rollout", "scoring", "update"]);
    for (const { bytes, parts: of } of Object.values(phases)) expect(bytes).toBe(total(Object.values(of)));
    expect(phases.load?.parts.gradients).toBeUndefined();
    expect(peak).toEqual({ phase: "update", bytes: phases.update?.bytes });
    expect(phases.rollout?.parts.kept).toBeGreaterThan(phases.update?.parts.activations ?? 0);
    expect(parts.activations).toBe(phases.update?.parts.activations);
    expect(Object.keys(estimateMemory(config, { ...options, training: false }).phases)).toEqual([
      "load",
      "rollout",
    ]);
    expect(
      Object.keys(estimateMemory(config, { ...options, frozenCopy: false, decoder: false }).phases),
    ).toEqual(["load", "update"]);
  });

  test("a table for people", () => {
    const table = formatEstimate(estimateMemory(config, options));
    expect(table).toMatch(/^494\.0 M parameters, bf16 +load +rollout +scoring +update\n/);
    expect(table).toMatch(/\nmoments +3\.68 GiB +3\.68 GiB +3\.68 GiB\n/);
    expect(table).toMatch(/\nPeak: update, \d+\.\d\d GiB$/);
  });
});

describeShared("Qwen2.5-0.5B on a GPU by hand", () => {
  const file = sharedPath("data", "configs", "Qwen2.5-0.5B-Instruct", "config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  const decoder = { cacheTokens: 65_536, maxBatch: 90, prefillTokens: 512 };
  const options = { device: "cuda", tokenLimit: 151_936, sequences: 64, decoder } as const;
  const parameters = 494_032_768;
  const matrices = 24 * (896 * 1152 + 896 * 896 + 3 * 896 * 4864) + 151_936 * 896;
  const unpacked = 151_936 * 896 + 24 * (1152 + 2 * 896) + 896;

  test("bf16: a copy of the matrices; the frozen copy is one more, with embedding, norms and biases", () => {
    const { parts, settings } = estimateMemory(config, options);
    expect(settings).toMatchObject({ device: "cuda", compute: "bf16" });
    expect(parts).toMatchObject({
      weights: 4 * parameters,
      packedWeights: 2 * matrices,
      frozenCopy: 2 * matrices + 4 * unpacked,
      gradients: 4 * parameters,
      moments: 8 * parameters,
      cache: 65_536 * 2 * 24 * 2 * 64 * 2,
    });
    // Recorded passes have sizes in steps.
    const rows = 602 * 4 * (1152 + 896 + 2 * 4864 + 896 + 4864 + 3 * 896);
    expect(parts.decoder).toBe(96 * 151_936 * 4 + rows);
    expect(parts.kept).toBeUndefined();
  });

  test("f32: products read the weights themselves", () => {
    const { parts } = estimateMemory(config, { ...options, compute: "f32" });
    expect(parts.packedWeights).toBe(0);
    expect(parts).toMatchObject({ frozenCopy: 4 * parameters, cache: 65_536 * 2 * 24 * 2 * 64 * 4 });
  });

  test("the head holds 512 MiB of logits at most, in tiles of 128 rows", () => {
    const { parts } = estimateMemory(config, options);
    const slab = 960 * (4 * 896 + 3) * 4;
    expect(parts.head).toBe(768 * 151_936 * 4 + 960 * 4 + slab);
  });

  test("what is in the machine's memory is apart", () => {
    const { phases, peak } = estimateMemory(config, options);
    for (const { bytes, parts, host } of Object.values(phases)) {
      expect(bytes).toBe(total(Object.values(parts)));
      expect(host?.bytes).toBe(total(Object.values(host?.parts ?? {})));
    }
    expect(phases.update?.host?.parts).toMatchObject({
      cache: 4096 * 20,
      decoder: 151_937 * 4,
      trajectories: 64 * 4096 * 24,
    });
    expect(peak.phase).toBe("update");
    const table = formatEstimate(estimateMemory(config, options));
    expect(table).toMatch(/^494\.0 M parameters, bf16, GPU +load/);
    expect(table).toMatch(
      /\nPeak: update, \d+\.\d\d GiB on the GPU; beside it \d+ MiB of the machine's memory$/,
    );
  });
});

describe("what the engine holds is what was estimated", () => {
  /** Buffers are kept while any policy lives; the engine frees them on its own thread. */
  afterEach(async () => {
    for (let turn = 0; engine.memory.keptBytes > 0; turn++) {
      if (turn === 500) throw new Error(`${engine.memory.keptBytes} bytes are kept after the last policy`);
      await new Promise((done) => setTimeout(done, 2));
    }
  });

  // Multiples of the widest vector, so that no instruction set pads more than another.
  const vocabulary = 160;
  const cases = (["qwen2", "qwen3", "llama"] as const).flatMap((family) =>
    (["f32", "bf16"] as const).flatMap((compute) =>
      [true, false].map((checkpoint) => [family, compute, checkpoint] as const),
    ),
  );

  test.each(cases)("%s, %s, checkpointActivations %s", async (family, compute, checkpoint) => {
    using policy = await smallPolicy(family, { compute }, vocabulary);
    const sizes = { cacheTokens: 200, maxBatch: 2, prefillTokens: 30 };
    const options = {
      decoder: sizes,
      frozenCopy: false,
      microBatchTokens: 76,
      longestSequence: 38,
      checkpointActivations: checkpoint,
    };
    const { parts } = estimateMemory(policy, options);
    expect(
      estimateMemory({ ...smallConfigs[family], vocab_size: vocabulary }, { ...options, compute }).parts,
    ).toEqual({ ...parts, head: expect.any(Number), scratch: expect.any(Number) });
    const { weights = 0, packedWeights = 0, gradients = 0, moments = 0 } = parts;
    let held = weights + packedWeights;
    expect(policy.bytes).toBe(held);

    // The last token of a sequence is not run: 2 x 38 rows.
    const tokens = randomTokens(39, 1);
    const batch = [0, 1].map(() => ({ tokens, weights: Float32Array.from(tokens, (_, t) => +(t > 0)) }));
    expect(engine.memory.keptBytes).toBe(0);
    await policy.forwardBackward(batch, { crossEntropy: {} }, { checkpointActivations: checkpoint });
    held += gradients + rotaryBytes(policy.config, 38);
    expect(policy.bytes).toBe(held);
    const pass = { rows: 76, longest: 38 };
    const { config } = policy;
    // The head's backward takes the place of what its forward left.
    expect(engine.memory.keptBytes).toBe(
      total(trainingSlabs(config, pass, checkpoint)) + headSlab(config, 76, true),
    );
    expect(parts.activations).toBe(total(trainingSlabs(config, pass, checkpoint)));
    await policy.step({ learningRate: 1e-3 });
    held += moments;
    expect(policy.bytes).toBe(held);

    using decoder = await policy.createDecoder(sizes);
    const offsets = policy.hasTokenizer ? Number.NaN : 4 * (vocabulary + 1);
    const logits = 4 * sizes.maxBatch * vocabulary;
    expect(decoder.bytes).toBe((parts.cache ?? 0) + logits + offsets);
    decoder.submit(randomTokens(90, 2), { maxNewTokens: 1 });
    for (let stopped = 0; stopped < 1; ) stopped += (await decoder.next()).length;
    await policy.gradientNorm(); // a call after which the model's bytes are counted again
    expect(policy.bytes).toBe(held + decodeWorkspaceBytes(policy, sizes.prefillTokens));
    expect(parts.decoder).toBe(
      logits + offsets + decodeWorkspaceBytes(policy, sizes.prefillTokens + sizes.maxBatch),
    );
  });

  test("scoring leaves the buffers of its pass", async () => {
    using policy = await smallPolicy("qwen3", {}, vocabulary);
    const sequences = [0, 1, 2].map((seed) => ({ tokens: randomTokens(31, seed) }));
    await policy.score(sequences);
    const slabs = scoringSlabs(policy, { rows: 90, longest: 30 });
    // The head finds room where a layer had its results.
    expect(headSlab(policy.config, 90, false)).toBeLessThan(Math.max(...slabs));
    expect(engine.memory.keptBytes).toBe(total(slabs));
  });

  test("a larger micro-batch takes the place of what the smaller one left", async () => {
    using policy = await smallPolicy("qwen2", {}, vocabulary);
    for (const length of [101, 121, 141, 161]) {
      await policy.score([{ tokens: randomTokens(length, 3) }]);
      const rows = length - 1;
      const slabs = total(scoringSlabs(policy, { rows, longest: rows }));
      // A set of buffers for every length would be three times as much in the end.
      expect(engine.memory.keptBytes - slabs).toBeLessThan(0.2 * slabs);
    }
  });
});

test("counts that are none are refused by name", () => {
  const config = { ...smallConfigs.qwen2, vocab_size: 160 };
  expect(() => estimateMemory(config, { compute: "f32", microBatchTokens: 0 })).toThrow(
    /microBatchTokens is 0/,
  );
  expect(() => estimateMemory(config, { compute: "f32", decoder: { maxBatch: 0.5 } })).toThrow(/maxBatch/);
  expect(() => estimateMemory({ model_type: "bert" }, { compute: "f32" })).toThrow(/model_type/);
});

import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TEMPERATURES } from "../../lib/native/decoder.js";
import { engine } from "../../lib/policy/engine.js";
import { Policy } from "../../lib/policy/policy.js";
import { parametersOf, smallConfig, writeModelFolder, writeTensors } from "../support/model-folder.js";
import { randomTokens, smallConfigs, smallPolicy } from "../support/small-policy.js";
import { wordTokenizer } from "../support/small-tokenizers.js";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-policy-"));
});
afterEach(() => rm(folder, { recursive: true }));

const tokens = randomTokens(30, 1);
const weights = Array.from(tokens, (_, index) => Math.sign(index));

describe("a policy", () => {
  test("is the same for the same seed, and another for another", async () => {
    using one = await smallPolicy("qwen3", { seed: 1 });
    using same = await smallPolicy("qwen3", { seed: 1n });
    using other = await smallPolicy("qwen3", { seed: 2n ** 64n - 1n });
    expect(await same.logits(tokens)).toEqual(await one.logits(tokens));
    expect(await other.logits(tokens)).not.toEqual(await one.logits(tokens));
  });

  test("draws its weights as its config or the caller says", async () => {
    const deviation = async (policy: Policy) => {
      const embedding = await policy.weight("model.embed_tokens.weight");
      return Math.sqrt(embedding.reduce((sum, weight) => sum + weight * weight, 0) / embedding.length);
    };
    const config = { ...smallConfigs.qwen2, initializer_range: 0.05 };
    using stated = await Policy.initialize({ config });
    using overridden = await Policy.initialize({ config, standardDeviation: 0.3 });
    using plain = await Policy.initialize({ config: smallConfigs.qwen2 });
    expect(await deviation(stated)).toBeCloseTo(0.05, 3);
    expect(await deviation(overridden)).toBeCloseTo(0.3, 1);
    expect(await deviation(plain)).toBeCloseTo(0.02, 3);
    expect(Array.from(await plain.weight("model.norm.weight")).every((weight) => weight === 1)).toBe(true);
  });

  test("says what it is", async () => {
    using policy = await smallPolicy("llama", { tokenizer: { json: wordTokenizer() } });
    expect(policy).toMatchObject({
      family: "llama",
      config: { hidden: 48, layers: 2, vocabulary: 150, tokenLimit: 6 },
      eosTokenIds: [2],
      compute: "f32",
      frozen: false,
      optimizerStep: 0,
      hasTokenizer: true,
    });
    expect(policy.tokenizer.size).toBe(6);
    expect(policy.parameters[0]).toMatchObject({ name: "model.embed_tokens.weight", shape: [150, 48] });
    expect(policy.bytes).toBeGreaterThan(4 * 150 * 48);
  });

  test("computes in bf16 where the processor does", async () => {
    using policy = await Policy.initialize({ config: smallConfigs.qwen2 });
    expect(policy.compute).toBe(engine.instructionSet.includes("bf16") ? "bf16" : "f32");
  });

  test("without a tokenizer takes and gives ids alone", async () => {
    using policy = await smallPolicy();
    const none = expect.objectContaining({ code: "INVALID_ARGUMENT" });
    expect(policy.hasTokenizer).toBe(false);
    expect(() => policy.tokenizer).toThrow(none);
    await expect(policy.generate(["text"])).rejects.toEqual(none);
    const [generated] = await policy.generate([[1, 2]], { maxNewTokens: 3, endTokens: [] });
    expect(generated).toMatchObject({ text: "", tokens: { length: 3 }, reason: "length" });
  });

  test("generates to the end of its positions, reports progress, and stops when told", async () => {
    using policy = await smallPolicy();
    const progress: { done: number; total: number }[] = [];
    const texts = await policy.generate([randomTokens(508, 1), [1]], {
      endTokens: [],
      onProgress: (each) => progress.push(each),
    });
    expect(texts.map((text) => text.tokens.length)).toEqual([4, 256]);
    expect(progress).toEqual([
      { done: 1, total: 2 },
      { done: 2, total: 2 },
    ]);
    await expect(policy.generate([randomTokens(513, 1)])).rejects.toMatchObject({ code: "CONTEXT_FULL" });
    const controller = new AbortController();
    const { signal } = controller;
    const options = { signal, endTokens: [], maxNewTokens: 50, onProgress: () => controller.abort() };
    const many = Array.from({ length: 500 }, () => [1]);
    await expect(policy.generate(many, options)).rejects.toMatchObject({ code: "ABORTED" });
    expect(await policy.generate([])).toEqual([]);
  });

  test("ends with what onProgress throws, once, and works on", async () => {
    using policy = await smallPolicy();
    const mine = new RangeError("mine");
    let calls = 0;
    const prompts = Array.from({ length: 20 }, () => [1]);
    const generated = policy.generate(prompts, {
      maxNewTokens: 2,
      onProgress: () => {
        calls++;
        throw mine;
      },
    });
    await expect(generated).rejects.toBe(mine);
    expect(calls).toBe(1);
    expect(await policy.generate(prompts, { maxNewTokens: 1 })).toHaveLength(20);
  });
});

describe("a snapshot", () => {
  test("keeps the weights of its moment and cannot be trained", async () => {
    using policy = await smallPolicy();
    using snapshot = await policy.snapshot();
    const before = await policy.score([{ tokens }]);
    expect(snapshot.frozen).toBe(true);
    await policy.forwardBackward([{ tokens, weights }], { crossEntropy: {} });
    const version = policy.version;
    await policy.step({ learningRate: 0.1 });
    expect(policy.version).toBeGreaterThan(version);
    expect(await policy.score([{ tokens }])).not.toEqual(before);
    expect(await snapshot.score([{ tokens }])).toEqual(before);

    const frozen = expect.objectContaining({ code: "INVALID_ARGUMENT" });
    await expect(snapshot.forwardBackward([{ tokens, weights }], { crossEntropy: {} })).rejects.toEqual(
      frozen,
    );
    await expect(snapshot.step({ learningRate: 0.1 })).rejects.toEqual(frozen);
    policy.dispose();
    expect(await snapshot.score([{ tokens }])).toEqual(before);
  });
});

describe("scoring", () => {
  test("begins where it is told, and gives zeros before", async () => {
    using policy = await smallPolicy();
    const [whole, part] = await policy.score([{ tokens }, { tokens, first: 20 }], { entropy: true });
    expect(part?.logProbs.subarray(20)).toEqual(whole?.logProbs.subarray(20));
    expect(part?.entropies.subarray(20)).toEqual(whole?.entropies.subarray(20));
    expect(part?.logProbs.subarray(0, 20).every((value) => value === 0)).toBe(true);
    expect(whole?.logProbs[0]).toBe(0);
    expect((await policy.score([{ tokens }]))[0]?.entropies).toHaveLength(0);
    expect(await policy.score([])).toEqual([]);
    for (const first of [1.5, Number.NaN]) {
      await expect(policy.score([{ tokens, first }])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    await expect(policy.score([{ tokens: 5 as never }])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("leaves out what a mask leaves out, and changes no other bit", async () => {
    using policy = await smallPolicy();
    const [whole] = await policy.score([{ tokens }], { entropy: true });
    // The first token cannot be scored, whatever a mask says; 256 is not 0.
    const mask = Array.from(tokens, (_, t) => (t % 5 === 0 && t < 20 ? 256 : 0));
    const sequences = [
      { tokens, mask, first: 6 },
      { tokens },
      { tokens, mask: new Uint8Array(tokens.length) },
    ];
    const [some, all, none] = await policy.score(sequences, { entropy: true });
    const wanted = (t: number) => t >= 6 && mask[t] !== 0;
    const expected = (values?: Float32Array) => values?.map((value, t) => (wanted(t) ? value : 0));
    expect(some?.logProbs).toEqual(expected(whole?.logProbs));
    expect(some?.entropies).toEqual(expected(whole?.entropies));
    expect(some?.logProbs[10]).not.toBe(0);
    expect(all).toEqual(whole);
    expect(none?.logProbs.every((value) => value === 0)).toBe(true);
    await expect(policy.score([{ tokens, mask: [1, 0] }])).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("mask of sequence 0 has 2 entries"),
    });
  });

  test("is softmax at the temperature given", async () => {
    using policy = await smallPolicy();
    const logits = await policy.logits(tokens);
    for (const temperature of [0.5, 1, 2]) {
      const [scored] = await policy.score([{ tokens }], { temperature, entropy: true });
      for (let position = 1; position < tokens.length; position++) {
        const row = Array.from(logits.subarray(150 * (position - 1), 150 * position), (z) => z / temperature);
        const sum = Math.log(row.reduce((total, z) => total + Math.exp(z), 0));
        const logProb = (row[tokens[position] as number] as number) - sum;
        const entropy = row.reduce((total, z) => total - Math.exp(z - sum) * (z - sum), 0);
        expect(scored?.logProbs[position]).toBeCloseTo(logProb, 4);
        expect(scored?.entropies[position]).toBeCloseTo(entropy, 4);
      }
    }
  });

  test("names the sequence and position of what is no number", async () => {
    using policy = await smallPolicy();
    await policy.save(folder);
    await breakWeights(folder);
    using broken = await Policy.load(folder);
    const error = expect.objectContaining({
      code: "NON_FINITE",
      message: expect.stringMatching(/sequence 0, position 1/),
    });
    await expect(broken.score([{ tokens }])).rejects.toEqual(error);
    await expect(broken.forwardBackward([{ tokens, weights }], { crossEntropy: {} })).rejects.toEqual(error);
    await expect(broken.generate([[1]], { maxNewTokens: 2 })).rejects.toMatchObject({ code: "NON_FINITE" });
    // The process lives, and so does the engine.
    expect(await policy.score([{ tokens }])).toHaveLength(1);
  });
});

describe("wrong use", () => {
  const invalid = expect.objectContaining({ name: "HindsearchError", code: "INVALID_ARGUMENT" });

  test("temperatures end where the options say", async () => {
    using policy = await smallPolicy();
    const { least, most } = TEMPERATURES;
    for (const temperature of [least, most]) await policy.score([{ tokens }], { temperature });
    for (const temperature of [0.999 * least, 1.001 * most]) {
      const refused = async () => policy.score([{ tokens }], { temperature });
      await expect(refused()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });

  test("arguments out of range", async () => {
    using policy = await smallPolicy();
    const calls = [
      () => policy.score([{ tokens: [] }]),
      () => policy.score([{ tokens: [1, 150] }]),
      () => policy.score([{ tokens: [1, -1] }]),
      () => policy.score([{ tokens: [1, 0.5] }]),
      () => policy.score([{ tokens: randomTokens(513, 1) }]),
      () => policy.score([{ tokens, first: 0 }]),
      () => policy.score([{ tokens, first: 31 }]),
      () => policy.score([{ tokens }], { temperature: 0 }),
      () => policy.score([{ tokens }], { temperature: 1e-38 }),
      () => policy.score([{ tokens }], { microBatchTokens: 0 }),
      () => policy.step({ learningRate: Number.NaN }),
      () => policy.step({ learningRate: -1 }),
      () => policy.step({ learningRate: 1, beta1: 1 }),
      () => policy.step({ learningRate: 1, epsilon: 0 }),
      () => policy.weight("nothing"),
      () => policy.gradient("nothing"),
      () => policy.createDecoder({ cacheTokens: 0 }),
      () => policy.createDecoder({ maxBatch: 1.5 }),
      () => smallPolicy("qwen2", { seed: -1 }),
      () => smallPolicy("qwen2", { standardDeviation: Number.POSITIVE_INFINITY }),
    ];
    for (const call of calls) await expect((async () => call())(), String(call)).rejects.toEqual(invalid);
    expect(() => {
      engine.threads = 0;
    }).toThrow(invalid);
  });

  test("a folder that is none, or lacks what it needs", async () => {
    await expect(Policy.load(join(folder, "nowhere"))).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    await writeModelFolder(folder, smallConfig);
    await expect(Policy.load(folder)).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    await writeTensors(join(folder, "model.safetensors"), parametersOf(smallConfig));
    using policy = await Policy.load(folder);
    expect(policy.parameters).toHaveLength(15);
    await writeModelFolder(folder, { ...smallConfig, model_type: "gpt2" });
    await expect(Policy.load(folder)).rejects.toMatchObject({ code: "UNSUPPORTED_MODEL" });
  });

  test("a tokenizer with more ids than the model has rows", async () => {
    await expect(smallPolicy("qwen2", { tokenizer: { json: wordTokenizer() } }, 5)).rejects.toMatchObject({
      code: "INVALID_CHECKPOINT",
    });
  });

  test("after dispose", async () => {
    const policy = await smallPolicy();
    const running = policy.score([{ tokens }]);
    policy.dispose();
    policy.dispose();
    expect(await running).toHaveLength(1);
    const disposed = expect.objectContaining({ name: "HindsearchError", code: "DISPOSED" });
    const calls = [
      () => policy.snapshot(),
      () => policy.score([{ tokens }]),
      () => policy.forwardBackward([{ tokens, weights }], { crossEntropy: {} }),
      () => policy.gradientNorm(),
      () => policy.zeroGradients(),
      () => policy.step({ learningRate: 1 }),
      () => policy.createDecoder(),
      () => policy.generate([[1]]),
      () => policy.save(folder),
      () => policy.saveOptimizer(join(folder, "optimizer")),
      () => policy.weight("model.norm.weight"),
      () => policy.logits([1]),
    ];
    for (const call of calls) await expect(call(), String(call)).rejects.toEqual(disposed);
    expect(() => policy.version).toThrow(disposed);
    expect(policy.bytes).toBe(0);
    expect(policy.config.hidden).toBe(48);
  });
});

describe("an abort", () => {
  test("ends a call that runs, and leaves the policy as it was", async () => {
    using policy = await smallPolicy();
    const many = Array.from({ length: 200 }, (_, index) => ({
      tokens: randomTokens(500, index),
      weights: Array.from({ length: 500 }, (_, position) => Math.sign(position)),
    }));
    const before = await policy.score([{ tokens }]);
    await policy.forwardBackward([{ tokens, weights }], { crossEntropy: {} });
    for (const call of [
      (signal: AbortSignal) => policy.score(many, { signal }),
      (signal: AbortSignal) => policy.forwardBackward(many, { crossEntropy: {} }, { signal }),
    ]) {
      const controller = new AbortController();
      const running = call(controller.signal);
      processorTime(30).then(() => controller.abort(new Error("enough")));
      await expect(running).rejects.toMatchObject({ code: "ABORTED", cause: new Error("enough") });
    }
    expect(await policy.score([{ tokens }])).toEqual(before);
    // A half-made gradient is none.
    expect(await policy.gradientNorm()).toBe(0);
  });

  test("ends a call that waits for its turn at once", async () => {
    using policy = await smallPolicy();
    const many = Array.from({ length: 100 }, (_, index) => ({ tokens: randomTokens(500, index) }));
    let finished = false;
    const running = policy.score(many).then(() => {
      finished = true;
    });
    const controller = new AbortController();
    const waiting = policy.score([{ tokens }], { signal: controller.signal });
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    expect(finished).toBe(false);
    await running;
  });

  test("of many calls under one signal raises no warning of a leak", async () => {
    using policy = await smallPolicy();
    const warnings: string[] = [];
    const listen = (warning: Error) => warnings.push(warning.name);
    process.on("warning", listen);
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 20 }, () => policy.score([{ tokens }], { signal })));
    await new Promise((done) => setImmediate(done));
    process.off("warning", listen);
    expect(warnings).toEqual([]);
  });

  test("before the call is one of its own; after it none at all", async () => {
    using policy = await smallPolicy();
    await expect(policy.score([{ tokens }], { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "ABORTED",
    });
    await expect(Policy.load(folder, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "ABORTED",
    });
    const controller = new AbortController();
    let listeners = 0;
    const { addEventListener: add, removeEventListener: remove } = controller.signal;
    controller.signal.addEventListener = function (...call: Parameters<typeof add>) {
      listeners++;
      add.apply(this, call);
    };
    controller.signal.removeEventListener = function (...call: Parameters<typeof remove>) {
      listeners--;
      remove.apply(this, call);
    };
    await policy.score([{ tokens }], { signal: controller.signal });
    await expect(policy.score([{ tokens: [] }], { signal: controller.signal })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(listeners).toBe(0);
    controller.abort();
    expect(await policy.score([{ tokens }])).toHaveLength(1);
  });
});

/** Resolves when this process has computed for so many milliseconds: a call is then under way, however slow the machine. */
async function processorTime(milliseconds: number): Promise<void> {
  const before = process.cpuUsage();
  for (let used = 0; used < milliseconds; ) {
    await new Promise((done) => setTimeout(done, 1));
    const { user, system } = process.cpuUsage(before);
    used = (user + system) / 1000;
  }
}

/** Makes the last weight of a folder NaN. */
async function breakWeights(path: string): Promise<void> {
  const file = await open(join(path, "model.safetensors"), "r+");
  const { size } = await file.stat();
  await file.write(Buffer.from(Float32Array.of(Number.NaN).buffer), 0, 4, size - 4);
  await file.close();
}

test("the addon's plain errors never reach a caller of the public API", async () => {
  using policy = await smallPolicy();
  const error = await policy.score([{ tokens: [999] }]).catch((cause: unknown) => cause);
  expect(error).toMatchObject({ name: "HindsearchError", code: "INVALID_ARGUMENT" });
  expect((error as Error).message).toMatch(/999/);
});

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { goldenModels } from "../support/golden.js";
import { describeShared, sharedPath } from "../support/shared.js";
import { randomTokens, smallConfigs, smallPolicy } from "../support/small-policy.js";
import { wordTokenizer } from "../support/small-tokenizers.js";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-save-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** A reader that shares nothing with ours: names, types, shapes, the sum of every tensor, and what is malformed. */
const independentReader = `
import json, struct, sys
blob = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", blob[:8])
header = json.loads(blob[8:8 + length])
data = blob[8 + length:]
metadata = header.pop("__metadata__")
def numbers(entry):
    begin, end = entry["data_offsets"]
    raw = data[begin:end]
    count = 1
    for side in entry["shape"]: count *= side
    if entry["dtype"] == "F32": return struct.unpack("<%df" % count, raw)
    if entry["dtype"] == "F16": return struct.unpack("<%de" % count, raw)
    assert entry["dtype"] == "BF16"
    return [struct.unpack("<f", b"\\0\\0" + raw[2 * i:2 * i + 2])[0] for i in range(count)]
tensors = {name: {"dtype": e["dtype"], "shape": e["shape"], "sum": sum(map(float, numbers(e)))} for name, e in header.items()}
ends = sorted(e["data_offsets"] for e in header.values())
contiguous = ends[0][0] == 0 and ends[-1][1] == len(data) and all(a[1] == b[0] for a, b in zip(ends, ends[1:]))
print(json.dumps({"metadata": metadata, "tensors": tensors, "contiguous": contiguous, "aligned": length % 8 == 0}))
`;

interface IndependentlyRead {
  metadata: Record<string, string>;
  tensors: Record<string, { dtype: string; shape: number[]; sum: number }>;
  contiguous: boolean;
  aligned: boolean;
}

function readIndependently(path: string): IndependentlyRead {
  return JSON.parse(execFileSync("python3", ["-c", independentReader, path], { encoding: "utf8" }));
}

const hash = async (path: string) =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("hex");

describe("a saved policy", () => {
  test("is read by a reader of its own", async () => {
    using policy = await smallPolicy("qwen3", { tokenizer: { json: wordTokenizer() } });
    await policy.save(folder);
    const { metadata, tensors, contiguous, aligned } = readIndependently(join(folder, "model.safetensors"));
    expect(metadata).toEqual({ format: "pt" });
    expect({ contiguous, aligned }).toEqual({ contiguous: true, aligned: true });
    expect(Object.keys(tensors).sort()).toEqual(policy.parameters.map(({ name }) => name).sort());
    for (const { name, shape } of policy.parameters) {
      expect(tensors[name]).toMatchObject({ dtype: "F32", shape });
      const sum = (await policy.weight(name)).reduce((total, weight) => total + weight, 0);
      expect(tensors[name]?.sum).toBeCloseTo(sum, 6);
    }
  });

  test.for(["f32", "f16", "bf16"] as const)("as %s loads again; f32 with identical logits", async (dtype) => {
    using policy = await smallPolicy("llama");
    await policy.save(folder, { dtype });
    using again = await Policy.load(folder, { compute: "f32" });
    const tokens = randomTokens(30, 1);
    const [before, after] = [await policy.logits(tokens), await again.logits(tokens)];
    if (dtype === "f32") expect(after).toEqual(before);
    else expect(after).not.toEqual(before);
    const names = { f32: "float32", f16: "float16", bf16: "bfloat16" };
    const config = JSON.parse(await readFile(join(folder, "config.json"), "utf8"));
    expect(config).toEqual({ ...smallConfigs.llama, torch_dtype: names[dtype] });

    // What has been rounded once is not rounded again.
    const first = await hash(join(folder, "model.safetensors"));
    await again.save(folder);
    expect(await hash(join(folder, "model.safetensors"))).toBe(first);
  });

  test("brings its tokenizer", async () => {
    using policy = await smallPolicy("qwen2", {
      tokenizer: { json: wordTokenizer(), chatTemplate: "{{ x }}" },
    });
    await policy.save(folder);
    expect((await readdir(folder)).sort()).toEqual([
      "chat_template.jinja",
      "config.json",
      "model.safetensors",
      "tokenizer.json",
    ]);
    using again = await Policy.load(folder);
    expect(again.tokenizer).toMatchObject({ size: 6, chatTemplate: "{{ x }}" });
    expect(again.config).toEqual(policy.config);
  });

  test("leaves no weights of another model behind, and nothing half-written", async () => {
    using policy = await smallPolicy();
    for (const name of [
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "model.safetensors.index.json",
      "notes.txt",
      "adapter.safetensors",
    ])
      await writeFile(join(folder, name), "old");
    await policy.save(folder);
    expect((await readdir(folder)).sort()).toEqual([
      "adapter.safetensors",
      "config.json",
      "model.safetensors",
      "notes.txt",
    ]);
  });

  test("that fails leaves the weights that were there", async () => {
    using policy = await smallPolicy();
    await policy.save(folder);
    const before = await hash(join(folder, "model.safetensors"));
    using large = await smallPolicy();
    const weights = Array.from({ length: 10 }, (_, index) => Math.sign(index));
    await large.forwardBackward([{ tokens: randomTokens(10, 0), weights }], { crossEntropy: {} });
    await large.step({ learningRate: 1e6 });
    // Beyond 65504.
    await expect(large.save(folder, { dtype: "f16" })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await hash(join(folder, "model.safetensors"))).toBe(before);
    await expect(policy.save(folder, { signal: AbortSignal.abort("stop") })).rejects.toMatchObject({
      code: "ABORTED",
      cause: "stop",
    });
    expect((await readdir(folder)).sort()).toEqual(["config.json", "model.safetensors"]);
    await expect(policy.save(join(folder, "config.json"))).rejects.toMatchObject({ code: "IO" });
  });
});

describe("optimizer state", () => {
  const batch = (step: number) => [
    {
      tokens: randomTokens(20, 50 + step),
      weights: Array.from({ length: 20 }, (_, index) => Math.sign(index)),
    },
  ];
  async function train(policy: Policy, from: number, to: number) {
    for (let step = from; step < to; step++) {
      await policy.forwardBackward(batch(step), { crossEntropy: {} });
      await policy.step({ learningRate: 1e-3 });
    }
  }
  async function weights(policy: Policy) {
    const all = [];
    for (const { name } of policy.parameters) all.push(await policy.weight(name));
    return all;
  }

  test.for(["f32", "bf16"] as const)(
    "5 steps are 2 steps, save, load and 3 steps, bit for bit, saved as %s",
    async (dtype) => {
      using straight = await smallPolicy("qwen2", { compute: "bf16" });
      await train(straight, 0, 5);

      using first = await smallPolicy("qwen2", { compute: "bf16" });
      await train(first, 0, 2);
      await first.save(folder, { dtype });
      await first.saveOptimizer(join(folder, "optimizer.safetensors"));

      using second = await Policy.load(folder, { compute: "bf16" });
      await second.loadOptimizer(join(folder, "optimizer.safetensors"));
      expect(second.optimizerStep).toBe(2);
      expect(await weights(second)).toEqual(await weights(first));
      await train(second, 2, 5);
      expect(await weights(second)).toEqual(await weights(straight));
      expect(second.optimizerStep).toBe(5);
    },
  );

  test("before the first step is zeros", async () => {
    using policy = await smallPolicy();
    const file = join(folder, "optimizer.safetensors");
    await policy.saveOptimizer(file);
    const { tensors, metadata } = readIndependently(file);
    expect(metadata.step).toBe("0");
    const moments = Object.entries(tensors).filter(([name]) => !name.startsWith("weights."));
    expect(moments).toHaveLength(2 * policy.parameters.length);
    expect(moments.every(([, { sum }]) => sum === 0)).toBe(true);
  });

  test("of another model, or damaged, is refused and changes nothing", async () => {
    using policy = await smallPolicy("qwen2");
    using other = await smallPolicy("llama");
    const before = await weights(policy);
    const file = join(folder, "optimizer.safetensors");
    const refused = (path: string) =>
      expect(policy.loadOptimizer(path)).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    await other.saveOptimizer(file);
    await refused(file);
    await policy.save(folder);
    await refused(join(folder, "model.safetensors"));
    await policy.saveOptimizer(file);
    const { size } = await stat(file);
    await writeFile(file, (await readFile(file)).subarray(0, size - 4));
    await refused(file);
    await expect(policy.loadOptimizer(join(folder, "none"))).rejects.toMatchObject({ code: "IO" });
    expect(await weights(policy)).toEqual(before);
    expect(policy.optimizerStep).toBe(0);
  });

  test.each([
    ["weights", Number.NaN],
    ["weights", Number.POSITIVE_INFINITY],
    ["firstMoments", Number.NEGATIVE_INFINITY],
    ["secondMoments", Number.NaN],
    ["secondMoments", -1e-9],
  ])("a number of %s that is %s is refused by its place and changes nothing", async (arena, damage) => {
    using policy = await smallPolicy();
    await train(policy, 0, 1);
    const file = join(folder, "optimizer.safetensors");
    await policy.saveOptimizer(file);
    await train(policy, 1, 2);
    const before = await weights(policy);
    const bytes = await readFile(file);
    const header = Number(bytes.readBigUInt64LE());
    const entry = JSON.parse(bytes.toString("utf8", 8, 8 + header))[`${arena}.model.norm.weight`];
    bytes.writeFloatLE(damage, 8 + header + entry.data_offsets[0] + 4 * 3);
    await writeFile(file, bytes);
    await expect(policy.loadOptimizer(file)).rejects.toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringMatching(
        new RegExp(`${arena}\\.model\\.norm\\.weight.*entry 3 is ${Math.fround(damage)}`),
      ),
    });
    expect(await weights(policy)).toEqual(before);
    expect(policy.optimizerStep).toBe(2);
    const stop = AbortSignal.abort("stop");
    await expect(policy.loadOptimizer(file, { signal: stop })).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describeShared("saved golden models", () => {
  const dtypes = { F32: 4, BF16: 2, F16: 2 };

  test.for(goldenModels)("%s: same names, types and numbers, one file; logits identical", async (model) => {
    const source = sharedPath("golden", "models", model);
    using policy = await Policy.load(source, { compute: "f32" });
    await policy.save(folder);
    const saved = readIndependently(join(folder, "model.safetensors"));
    const shards = (await readdir(source)).filter((name) => name.endsWith(".safetensors"));
    const original = shards.map((shard) => readIndependently(join(source, shard)).tensors);
    expect(saved.tensors).toEqual(Object.assign({}, ...original));
    expect(Object.values(saved.tensors).every(({ dtype }) => dtype in dtypes)).toBe(true);
    expect(await hash(join(folder, "config.json"))).toBe(await hash(join(source, "config.json")));
    expect((await readdir(folder)).sort()).toEqual(["config.json", "model.safetensors"]);

    using again = await Policy.load(folder, { compute: "f32" });
    const tokens = [1, 2, 3, 50, 17, 0];
    expect(await again.logits(tokens)).toEqual(await policy.logits(tokens));
  });

  test("a sharded folder that is saved over itself", async () => {
    await cp(sharedPath("golden", "models", "qwen2_untied_sharded"), folder, { recursive: true });
    using policy = await Policy.load(folder, { compute: "f32" });
    await policy.save(folder);
    expect((await readdir(folder)).filter((name) => /safetensors/.test(name))).toEqual(["model.safetensors"]);
    using again = await Policy.load(folder, { compute: "f32" });
    expect(await again.logits([1, 2, 3])).toEqual(await policy.logits([1, 2, 3]));
  });

  test("a real model: every file but the weights to the byte", async () => {
    const source = sharedPath("data", "model", "stories260k");
    using policy = await Policy.load(source);
    await policy.save(folder);
    for (const name of ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]) {
      expect(await hash(join(folder, name)), name).toBe(await hash(join(source, name)));
    }
    expect(readIndependently(join(folder, "model.safetensors")).tensors).toEqual(
      readIndependently(join(source, "model.safetensors")).tensors,
    );
  });
});

import { mkdtemp, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openCheckpoint } from "../../lib/policy/checkpoint.js";
import {
  type FilledTensor,
  parametersOf,
  smallConfig,
  writeModelFolder,
  writeTensors,
} from "../support/model-folder.js";
import { describeShared, sharedPath } from "../support/shared.js";

const parameters = parametersOf(smallConfig);
const tied = { ...smallConfig, tie_word_embeddings: true };

let root: string;
let folder: string;
let count = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-checkpoint-"));
});
beforeEach(async () => {
  folder = await writeModelFolder(join(root, String(count++)), smallConfig);
});
afterAll(() => rm(root, { recursive: true, force: true }));

const single = (tensors: readonly FilledTensor[]) => writeTensors(join(folder, "model.safetensors"), tensors);
const refusal = () => openCheckpoint(folder).catch((error) => error);

describe("a single file", () => {
  test("gives every parameter with its place and type", async () => {
    await single(parameters.map((tensor, i) => ({ ...tensor, type: i % 2 === 0 ? "bf16" : "f16" })));
    const { tensors, tokenizer, description, rawConfig } = await openCheckpoint(folder);
    expect(tensors.map(({ name }) => name)).toEqual(parameters.map(({ name }) => name));
    expect(tensors.map(({ type }) => type).slice(0, 2)).toEqual(["bf16", "f16"]);
    expect(tensors[0]).toMatchObject({ shape: [20, 8], bytes: 320, path: join(folder, "model.safetensors") });
    expect((tensors[1]?.offset ?? 0) - (tensors[0]?.offset ?? 0)).toBe(320);
    expect(tokenizer).toBeNull();
    expect(description.config.tokenLimit).toBe(20);
    expect(rawConfig).toEqual(smallConfig);
  });

  test("may be a link, as in the hub's cache", async () => {
    await writeTensors(join(root, "blob"), parameters);
    await symlink(join(root, "blob"), join(folder, "model.safetensors"));
    expect((await openCheckpoint(folder)).tensors).toHaveLength(parameters.length);
  });

  test.each<[string, () => FilledTensor[], RegExp]>([
    ["a missing parameter", () => parameters.slice(1), /lack model\.embed_tokens\.weight of shape \[20, 8\]/],
    [
      "another shape",
      () =>
        parameters.map((tensor) =>
          tensor.name === "lm_head.weight" ? { ...tensor, shape: [21, 8] } : tensor,
        ),
      /lm_head\.weight has the shape \[21, 8\]; by config\.json it is \[20, 8\]/,
    ],
    [
      "a transposed shape",
      () =>
        parameters.map((tensor) =>
          tensor.name === "lm_head.weight" ? { ...tensor, shape: [8, 20] } : tensor,
        ),
      /lm_head\.weight has the shape/,
    ],
    [
      "a tensor that the model does not have",
      () => [...parameters, { name: "base_model.lora_A.weight", type: "f32", shape: [2] }],
      /base_model\.lora_A\.weight is no parameter of a qwen2 model/,
    ],
    [
      "a layer too many",
      () => [...parameters, { name: "model.layers.1.input_layernorm.weight", type: "f32", shape: [8] }],
      /model\.layers\.1\.input_layernorm\.weight is no parameter/,
    ],
  ])("%s is an error that names it", async (_name, tensors, message) => {
    await single(tensors());
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringMatching(message),
    });
  });

  test("rotary buffers of old versions are left out", async () => {
    const name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    await single([...parameters, { name, type: "f32", shape: [2] }]);
    expect((await openCheckpoint(folder)).tensors).toHaveLength(parameters.length);
  });

  test("a weight of another type is unsupported", async () => {
    const path = join(folder, "model.safetensors");
    const header = Buffer.from(
      JSON.stringify({
        "model.embed_tokens.weight": { dtype: "I8", shape: [20, 8], data_offsets: [0, 160] },
      }),
    );
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    await writeFile(path, Buffer.concat([length, header, Buffer.alloc(160)]));
    expect(await refusal()).toMatchObject({
      code: "UNSUPPORTED_MODEL",
      message: expect.stringContaining("model.embed_tokens.weight is I8"),
    });
  });
});

describe("tied embeddings", () => {
  const head = (fill: number): FilledTensor => ({
    name: "lm_head.weight",
    type: "f32",
    shape: [20, 8],
    fill,
  });
  const tiedParameters = parametersOf(tied).map((tensor) => ({ ...tensor, fill: 3 }));
  beforeEach(() => writeModelFolder(folder, tied));

  test("need no head, and may have a copy", async () => {
    await single(tiedParameters);
    const names = (await openCheckpoint(folder)).tensors.map(({ name }) => name);
    expect(names).not.toContain("lm_head.weight");
    await single([...tiedParameters, head(3)]);
    expect((await openCheckpoint(folder)).tensors.map(({ name }) => name)).toEqual(names);
  });

  test("a head that differs contradicts the config", async () => {
    await single([...tiedParameters, head(4)]);
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringContaining("lm_head.weight differs"),
    });
    await single([...tiedParameters, { ...head(3), type: "f16" }]);
    expect(await refusal()).toMatchObject({ code: "INVALID_CHECKPOINT" });
  });
});

describe("other folders", () => {
  test("no weights, no config, no folder", async () => {
    expect((await refusal()).message).toMatch(/neither model\.safetensors nor/);
    await unlink(join(folder, "config.json"));
    expect((await refusal()).message).toMatch(/no config\.json/);
    await rm(folder, { recursive: true });
    expect(await refusal()).toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test.each([
    ["a list", "[]"],
    ["cut", '{"model_type": "qw'],
    ["empty", ""],
    ["too large", " ".repeat(5_000_000)],
  ])("a config that is %s", async (_name, content) => {
    await writeFile(join(folder, "config.json"), content);
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringContaining("config.json"),
    });
  });

  test("an aborted signal ends the call", async () => {
    await single(parameters);
    await expect(openCheckpoint(folder, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "ABORTED",
    });
  });
});

describe("end-of-text ids", () => {
  const tokenizer = {
    added_tokens: [
      { id: 10, content: "<end>", special: true },
      { id: 11, content: "<s>", special: true },
    ],
    decoder: null,
    normalizer: null,
    pre_tokenizer: { type: "WhitespaceSplit" },
    post_processor: null,
    model: {
      type: "WordLevel",
      unk_token: "<unk>",
      vocab: Object.fromEntries(["<unk>", ..."abcdefghi"].map((word, id) => [word, id])),
    },
  };

  test("are the union of config, generation config and tokenizer", async () => {
    await single(parameters);
    expect((await openCheckpoint(folder)).eosTokenIds).toEqual([2]);
    await writeModelFolder(folder, smallConfig, { "generation_config.json": { eos_token_id: [7, 2] } });
    expect((await openCheckpoint(folder)).eosTokenIds).toEqual([2, 7]);
    await writeModelFolder(folder, smallConfig, {
      "tokenizer.json": tokenizer,
      "tokenizer_config.json": { eos_token: "<end>" },
    });
    const { eosTokenIds, description } = await openCheckpoint(folder);
    expect(eosTokenIds).toEqual([2, 7, 10]);
    expect(description.config).toMatchObject({ vocabulary: 20, tokenLimit: 12 });
  });

  test("must be ids that the tokenizer knows", async () => {
    await single(parameters);
    await writeModelFolder(folder, smallConfig, {
      "tokenizer.json": tokenizer,
      "generation_config.json": { eos_token_id: 15 },
    });
    expect((await refusal()).message).toMatch(/eos_token_id 15 is none of the tokenizer's 12 ids/);
    await writeModelFolder(folder, smallConfig, { "generation_config.json": { eos_token_id: 20 } });
    expect((await refusal()).message).toMatch(/generation_config\.json: eos_token_id/);
  });

  test("a tokenizer with more ids than the model has rows is refused", async () => {
    const config = { ...smallConfig, vocab_size: 11 };
    await writeModelFolder(folder, config, { "tokenizer.json": tokenizer });
    await single(parametersOf(config));
    expect((await refusal()).message).toMatch(/12 ids, the model only 11/);
  });
});

describeShared("real folders", () => {
  test.each([
    ["qwen2_tied", 26, "f32"],
    ["qwen2_untied_sharded", 39, "f32"],
    ["qwen3_tied_bf16", 35, "bf16"],
    ["llama3_untied", 21, "f32"],
  ])("golden %s", async (name, tensorCount, type) => {
    const { tensors, tokenizer, description } = await openCheckpoint(sharedPath("golden", "models", name));
    expect(tensors).toHaveLength(tensorCount);
    expect(new Set(tensors.map((tensor) => tensor.type))).toEqual(new Set([type]));
    expect(tokenizer).toBeNull();
    expect(description.config.tokenLimit).toBe(description.config.vocabulary);
  });

  test("the shards of a golden model are all used", async () => {
    const { tensors } = await openCheckpoint(sharedPath("golden", "models", "qwen2_untied_sharded"));
    expect(new Set(tensors.map(({ path }) => path)).size).toBe(3);
  });

  test("stories260k with its tokenizer", async () => {
    const { tensors, tokenizer, eosTokenIds } = await openCheckpoint(
      sharedPath("data", "model", "stories260k"),
    );
    expect(tensors).toHaveLength(47);
    expect(tokenizer?.size).toBe(512);
    expect(eosTokenIds).toEqual([2]);
  });
});

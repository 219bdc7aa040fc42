import { mkdtemp, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findStoredTensors } from "../../lib/policy/weight-files.js";
import {
  type FilledTensor,
  parametersOf,
  smallConfig,
  writeModelFolder,
  writeTensors,
} from "../support/model-folder.js";

const INDEX = "model.safetensors.index.json";
const parameters = parametersOf(smallConfig);

let root: string;
let folder: string;
let count = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-weights-"));
});
beforeEach(async () => {
  folder = await writeModelFolder(join(root, String(count++)), smallConfig);
});
afterAll(() => rm(root, { recursive: true, force: true }));

const refusal = () => findStoredTensors(folder).catch((error) => error);

describe("shards", () => {
  const [a, b] = ["model-1.safetensors", "model-2.safetensors"];
  const half = Math.floor(parameters.length / 2);
  const index = (change: Record<string, unknown> = {}) => ({
    metadata: { total_size: 1 },
    weight_map: {
      ...Object.fromEntries(parameters.map(({ name }, i) => [name, i < half ? a : b])),
      ...change,
    },
  });
  beforeEach(async () => {
    await writeTensors(join(folder, a), parameters.slice(0, half));
    await writeTensors(join(folder, b), parameters.slice(half));
    await writeModelFolder(folder, smallConfig, { [INDEX]: index() });
  });

  test("are read by the index; a stray file is not looked at", async () => {
    await writeFile(join(folder, "model-3.safetensors"), "not safetensors");
    const tensors = await findStoredTensors(folder);
    expect(tensors.size).toBe(parameters.length);
    expect(new Set([...tensors.values()].map(({ path }) => basename(path)))).toEqual(new Set([a, b]));
  });

  test("a missing shard is named", async () => {
    await unlink(join(folder, b));
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringContaining(`lacks ${b}`),
    });
  });

  test("an index that places a tensor elsewhere, or one that is nowhere, is refused", async () => {
    const { name } = parameters[0] as FilledTensor;
    await writeModelFolder(folder, smallConfig, { [INDEX]: index({ [name]: b }) });
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringContaining(name),
    });
    await writeModelFolder(folder, smallConfig, { [INDEX]: index({ nowhere: a }) });
    expect((await refusal()).message).toMatch(
      /places nowhere in model-1\.safetensors, which does not hold it/,
    );
  });

  test("single file and index together are refused: one of them is out of date", async () => {
    await writeTensors(join(folder, "model.safetensors"), parameters);
    expect((await refusal()).message).toMatch(/has both/);
  });

  test.each([
    "/etc/passwd.safetensors",
    "../other/model.safetensors",
    "sub/model.safetensors",
    "sub\\model.safetensors",
    "..",
    "..safetensors",
    "model.safetensors\0.safetensors",
    "pytorch_model.bin",
    "",
    7,
    null,
  ])("the shard name %j is refused", async (shard) => {
    await writeModelFolder(folder, smallConfig, {
      [INDEX]: index({ [(parameters[0] as FilledTensor).name]: shard }),
    });
    expect(await refusal()).toMatchObject({
      code: "INVALID_CHECKPOINT",
      message: expect.stringContaining("expected the name of a .safetensors file in the folder"),
    });
  });

  test.each([
    ["a list", []],
    ["no map", {}],
    ["an empty map", { weight_map: {} }],
    ["no JSON", "{"],
  ])("an index that is %s is refused", async (_name, content) => {
    await writeModelFolder(folder, smallConfig, { [INDEX]: content });
    expect(await refusal()).toMatchObject({ code: "INVALID_CHECKPOINT" });
  });
});

test("pickled weights are never read; the error says how to convert them", async () => {
  await writeFile(join(folder, "pytorch_model.bin"), "pickle");
  expect(await refusal()).toMatchObject({
    code: "INVALID_CHECKPOINT",
    message: expect.stringMatching(/pytorch_model\.bin.*save_pretrained/s),
  });
});

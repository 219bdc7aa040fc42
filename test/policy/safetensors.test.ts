import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  buildSafetensorsHeader,
  parseSafetensorsHeader,
  readSafetensorsHeader,
} from "../../lib/policy/safetensors.js";
import { describeShared, sharedPath } from "../support/shared.js";

const bytes = (text: string) => Buffer.from(text);
const parse = (text: string, dataBytes: number) =>
  parseSafetensorsHeader(bytes(text), dataBytes, "x.safetensors");
const entry = (begin: number, end: number, shape: unknown = [(end - begin) / 4], dtype = "F32") =>
  JSON.stringify({ dtype, shape, data_offsets: [begin, end] });

describe("parseSafetensorsHeader", () => {
  test("reads entries in the order of their bytes", () => {
    const header = `{"b":${entry(8, 16)},"__metadata__":{"format":"pt"},"a":${entry(0, 8, [2, 1])},"s":${entry(16, 20, [])},"none":${entry(20, 20, [0, 7])}}  `;
    const { metadata, tensors, dataOffset } = parse(header, 20);
    expect([...tensors.keys()]).toEqual(["a", "b", "s", "none"]);
    expect(tensors.get("a")).toEqual({ dtype: "F32", shape: [2, 1], begin: 0, end: 8 });
    expect(metadata).toEqual({ format: "pt" });
    expect(dataOffset).toBe(8 + header.length);
    expect(parse("{}", 0).tensors.size).toBe(0);
  });

  test("takes names that are no harmless identifiers as names", () => {
    const { tensors } = parse(
      `{"__proto__":${entry(0, 4)},"constructor":${entry(4, 8)},"1":${entry(8, 12)}}`,
      12,
    );
    expect([...tensors.keys()]).toEqual(["__proto__", "constructor", "1"]);
  });

  test.each<[string, string, number, RegExp]>([
    ["no JSON", "{", 0, /not JSON/],
    ["no object", "[]", 0, /not a UTF-8 JSON object/],
    ["leading space", " {}", 0, /not a UTF-8 JSON object/],
    ["a key twice", `{"a":${entry(0, 4)},"a":${entry(0, 4)}}`, 4, /key "a" twice/],
    ["a key twice, written in two ways", `{"a":${entry(0, 4)},"\\u0061":${entry(0, 4)}}`, 4, /twice/],
    [
      "a key twice inside an entry",
      `{"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,4]}}`,
      4,
      /twice/,
    ],
    ["metadata twice", `{"__metadata__":{},"__metadata__":{}}`, 0, /twice/],
    ["metadata of numbers", `{"__metadata__":{"a":1}}`, 0, /__metadata__/],
    ["metadata that is a list", `{"__metadata__":[]}`, 0, /__metadata__/],
    ["an entry that is no object", `{"a":3}`, 0, /tensor a: must be an object/],
    ["an unknown dtype", `{"a":${entry(0, 4, [8], "F4")}}`, 4, /tensor a: unknown dtype/],
    ["a dtype of another type", `{"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}}`, 4, /unknown dtype/],
    ["a negative size", `{"a":${entry(0, 4, [-1])}}`, 4, /shape/],
    ["a fractional size", `{"a":${entry(0, 4, [0.5])}}`, 4, /shape/],
    [
      "a size beyond exact integers",
      `{"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}}`,
      4,
      /shape/,
    ],
    ["no shape", `{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, /shape/],
    [
      "a product that overflows 64 bits to the right size",
      `{"a":{"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,0]}}`,
      0,
      /do not hold/,
    ],
    [
      "an infinite product times zero",
      `{"a":{"dtype":"F32","shape":[${"9007199254740991,".repeat(25)}0],"data_offsets":[0,0]}}`,
      0,
      /do not hold/,
    ],
    ["end before begin", `{"a":${entry(4, 0, [1])}}`, 4, /do not hold/],
    [
      "offsets beyond exact integers",
      `{"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551616]}}`,
      4,
      /data_offsets/,
    ],
    ["three offsets", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4, /data_offsets/],
    ["a size that is not shape times type", `{"a":${entry(0, 8, [1])}}`, 8, /do not hold/],
    ["a hole at the start", `{"a":${entry(4, 8)}}`, 8, /hole/],
    ["a hole", `{"a":${entry(0, 4)},"b":${entry(8, 12)}}`, 12, /hole/],
    ["an overlap", `{"a":${entry(0, 8)},"b":${entry(4, 12)}}`, 12, /overlaps/],
    ["the same bytes twice", `{"a":${entry(0, 8)},"b":${entry(0, 8)}}`, 8, /overlaps/],
    ["data behind the last tensor", `{"a":${entry(0, 4)}}`, 12, /end at byte 4, the data at 12/],
    ["data that are cut", `{"a":${entry(0, 8)}}`, 4, /incomplete/],
  ])("refuses %s", (_name, header, dataBytes, message) => {
    expect(() => parse(header, dataBytes)).toThrow(expect.objectContaining({ code: "INVALID_CHECKPOINT" }));
    expect(() => parse(header, dataBytes)).toThrow(/^x\.safetensors/);
    expect(() => parse(header, dataBytes)).toThrow(message);
  });

  test("refuses text that is not UTF-8", () => {
    const header = Buffer.concat([bytes('{"a'), Buffer.of(0xff), bytes(`":${entry(0, 4)}}`)]);
    expect(() => parseSafetensorsHeader(header, 4, "x")).toThrow(/UTF-8/);
  });

  test("refuses too many tensors, and is quick about as many as are allowed", () => {
    const many = (count: number) => {
      const entries = Array.from({ length: count }, (_, i) => `"${i}":${entry(i, i + 1, [1], "U8")}`);
      return `{${entries.join(",")}}`;
    };
    expect(parse(many(100_000), 100_000).tensors.size).toBe(100_000);
    expect(() => parse(many(100_001), 100_001)).toThrow(/at most 100000/);
  });

  test("random damage is an error of ours, never another one", () => {
    const header = `{"__metadata__":{"format":"pt"},"a":${entry(0, 8, [2, 1])},"b":${entry(8, 16)}}`;
    for (let i = 0; i < header.length; i++) {
      for (const symbol of ['"', "\\", "{", "}", "9", "-", "\0", ""]) {
        const damaged = header.slice(0, i) + symbol + header.slice(i + 1);
        try {
          parse(damaged, 16);
        } catch (error) {
          expect(error).toMatchObject({ name: "HindsearchError", code: "INVALID_CHECKPOINT" });
        }
      }
    }
  });
});

describe("buildSafetensorsHeader", () => {
  test("writes what the parser reads, aligned to 8 bytes", () => {
    for (let extra = 0; extra < 9; extra++) {
      const header = buildSafetensorsHeader([
        { name: `w${"x".repeat(extra)}`, type: "bf16", shape: [3, 5] },
        { name: "__proto__", type: "f32", shape: [] },
        { name: "ü", type: "f16", shape: [7] },
      ]);
      expect(header.length % 8).toBe(0);
      const { metadata, tensors } = parseSafetensorsHeader(header, 30 + 4 + 14, "x");
      expect(metadata).toEqual({ format: "pt" });
      expect([...tensors.values()]).toEqual([
        { dtype: "BF16", shape: [3, 5], begin: 0, end: 30 },
        { dtype: "F32", shape: [], begin: 30, end: 34 },
        { dtype: "F16", shape: [7], begin: 34, end: 48 },
      ]);
    }
  });

  test.each([
    ["a name twice", ["a", "a"], [1]],
    ["a reserved name", ["__metadata__"], [1]],
    ["a negative size", ["a"], [-1]],
    ["a size beyond exact integers", ["a"], [2 ** 30, 2 ** 30]],
  ])("refuses %s", (_name, names, shape) => {
    const tensors = names.map((name) => ({ name, type: "f32" as const, shape }));
    expect(() => buildSafetensorsHeader(tensors)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });
});

describe("readSafetensorsHeader", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "hindsearch-safetensors-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function read(content: Uint8Array) {
    const path = join(folder, "x.safetensors");
    await writeFile(path, content);
    return readSafetensorsHeader(path);
  }
  const length = (value: bigint) => {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(value);
    return buffer;
  };

  test("reads a file that was built here", async () => {
    const header = buildSafetensorsHeader([{ name: "a", type: "f32", shape: [2] }]);
    const content = Buffer.concat([length(BigInt(header.length)), header, Buffer.alloc(8)]);
    const { tensors, dataOffset } = await read(content);
    expect(dataOffset % 8).toBe(0);
    expect(tensors.get("a")).toEqual({ dtype: "F32", shape: [2], begin: 0, end: 8 });
    await expect(read(content.subarray(0, -1))).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test.each<[string, Uint8Array]>([
    ["an empty file", Buffer.alloc(0)],
    ["a file of 7 bytes", Buffer.alloc(7)],
    ["a header of no bytes", length(0n)],
    ["a header longer than the file", Buffer.concat([length(100n), bytes("{}")])],
    ["a header of 2^64 - 1 bytes", Buffer.concat([length(2n ** 64n - 1n), bytes("{}")])],
    ["an HTML page", bytes("<!doctype html><title>404</title>")],
  ])("refuses %s", async (_name, content) => {
    await expect(read(content)).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test("refuses a header over 100 MB before it reads it", async () => {
    const path = join(folder, "huge.safetensors");
    await writeFile(path, length(100_000_001n));
    const { truncate } = await import("node:fs/promises");
    await truncate(path, 200_000_000);
    await expect(readSafetensorsHeader(path)).rejects.toThrow(/at most 100000000/);
  });

  test("a missing file and a folder are IO errors", async () => {
    await expect(readSafetensorsHeader(join(folder, "missing"))).rejects.toMatchObject({ code: "IO" });
    await expect(readSafetensorsHeader(folder)).rejects.toMatchObject({ code: "IO" });
  });
});

describeShared("files that other tools wrote", () => {
  test("jfk-codes.safetensors", async () => {
    const path = sharedPath("data", "golden", "safetensors", "jfk-codes.safetensors");
    const { tensors } = await readSafetensorsHeader(path);
    expect([...tensors.values()]).toEqual([{ dtype: "I64", shape: [1, 2, 828], begin: 0, end: 13_248 }]);
  });

  test("golden models", async () => {
    const path = sharedPath("golden", "models", "qwen3_tied_bf16", "model.safetensors");
    const { tensors } = await readSafetensorsHeader(path);
    expect(tensors.get("model.embed_tokens.weight")).toMatchObject({ dtype: "BF16", shape: [199, 60] });
  });
});

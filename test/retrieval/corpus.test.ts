import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Passage } from "../../lib/retrieval/passage.js";
import { readCorpus } from "../../lib/retrieval/sources/corpus.js";
import { describeShared, sharedPath } from "../support/shared.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-corpus-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(path: string | string[]): Promise<Passage[]> {
  const passages: Passage[] = [];
  for await (const passage of readCorpus(path)) passages.push(passage);
  return passages;
}

async function file(content: string | Buffer): Promise<string> {
  const path = join(folder, `${Math.random()}.jsonl`);
  await writeFile(path, content);
  return path;
}

const LINES = [
  { id: "0", contents: '"A"\nalpha' },
  { id: 1, title: "B", text: "beta", extra: true },
  { id: "2", text: "no title" },
];
const PASSAGES = [
  { id: "0", title: "A", text: "alpha" },
  { id: "1", title: "B", text: "beta" },
  { id: "2", title: "", text: "no title" },
];
const JSONL = LINES.map((line) => JSON.stringify(line)).join("\n");

describe("reads both forms of row", () => {
  test("plain", async () => expect(await read(await file(JSONL))).toEqual(PASSAGES));
  test("gzip", async () => expect(await read(await file(gzipSync(JSONL)))).toEqual(PASSAGES));
  test("several files, one after the other", async () => {
    const paths = [await file(JSONL), await file(gzipSync('{"id": "3", "text": "more"}'))];
    expect(await read(paths)).toEqual([...PASSAGES, { id: "3", title: "", text: "more" }]);
  });
});

test.each([
  ["[]", "not an object"],
  ["null", "not an object"],
  ['{"contents": "x"}', "id is neither"],
  ['{"id": 1.5, "contents": "x"}', "id is neither"],
  ['{"id": "", "contents": "x"}', "id has 0 characters"],
  [`{"id": "${"x".repeat(1025)}", "contents": "x"}`, "id has 1025 characters"],
  ['{"id": "a\\u0007", "contents": "x"}', "control character"],
  ['{"id": "a"}', "neither contents nor text"],
  ['{"id": "a", "contents": null}', "neither contents nor text"],
  ['{"id": "a", "title": 3, "text": "x"}', "title is not"],
])("%s is refused with its line", async (line, problem) => {
  const path = await file(`{"id": "0", "contents": "fine"}\n${line}\n`);
  await expect(read(path)).rejects.toMatchObject({
    code: "INVALID_DATA",
    message: expect.stringMatching(new RegExp(`${path}, line 2: .*${problem}`)),
  });
});

describeShared("shared corpora", () => {
  test.each([
    ["multihop", 16_885],
    ["wiki18_single", 11_109],
  ])("%s", async (name, count) => {
    const passages = await read(sharedPath("data", "corpus", `${name}.jsonl.gz`));
    expect(passages.length).toBe(count);
    expect(
      passages.filter(({ title, text }) => title === "" || title.startsWith('"') || text === ""),
    ).toEqual([]);
    expect(passages.map(({ id }) => id)).toEqual(passages.map((_, i) => String(i)));
  });
});

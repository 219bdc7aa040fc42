import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@lancedb/lancedb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HindsearchError } from "../../lib/errors.js";
import { corpusChecksum } from "../../lib/retrieval/checksum.js";
import { CorpusIndex } from "../../lib/retrieval/embedded/corpus-index.js";
import type { EmbeddingModel } from "../../lib/retrieval/embedding/embedding-model.js";
import { HashedEmbedding } from "../../lib/retrieval/embedding/hashed.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { builders, until } from "./builders.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-build-"));
});
afterAll(() => rm(folder, { recursive: true }));

const FEW: Passage[] = [
  { id: "a", title: "A", text: "alpha beta" },
  { id: "b", title: "B", text: "beta gamma" },
];
const WORDS = ["river", "mountain", "city", "painter", "novel", "king", "island", "bridge", "film", "song"];
/** Passages that differ, in every number of words from 5 to 24. */
const many = (count: number): Passage[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `p${i}`,
    title: `Title ${i % 97}`,
    text: `${Array.from({ length: 5 + (i % 20) }, (_, k) => WORDS[(i * 7 + k * k) % 10]).join(" ")} n${i}`,
  }));

/** The rows of an index as they are stored. */
async function stored(index: string): Promise<unknown[]> {
  const database = await connect(index);
  const table = await database.openTable("passages");
  const rows = (await table.query().toArray()).map((row) => JSON.stringify(row.toJSON()));
  table.close();
  database.close();
  return rows;
}

async function answers(index: string, queries: string[]): Promise<Passage[][]> {
  const retriever = await CorpusIndex.open(index);
  const found = await retriever.search(queries, 5);
  await retriever.close();
  return found;
}

describe("what a build leaves where it cannot build", () => {
  test("a damaged corpus is named with its line, and is no obstacle to another", async () => {
    const corpus = join(folder, "damaged.jsonl");
    await writeFile(corpus, '{"id": "0", "contents": "fine"}\nnot json\n');
    const index = join(folder, "damaged");
    await expect(CorpusIndex.build(corpus, index)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining("damaged.jsonl, line 2"),
    });
    await expect(CorpusIndex.open(index)).rejects.toMatchObject({ code: "INVALID_DATA" });
    await CorpusIndex.build(FEW, index, { analyzer: "english" });
  });

  test.each([
    ["an empty corpus", [], "no passage"],
    ["repeated ids", [...FEW, { id: "a", title: "", text: "again" }], 'Passage 2.*"a"'],
    ["an empty id", [{ id: "", title: "", text: "x" }], "Passage 0.*id has 0"],
    ["an id with a line break", [{ id: "a\nb", title: "", text: "x" }], "control character"],
    ["what is no passage", [undefined as unknown as Passage], "Passage 0.*not an object"],
  ])("%s", async (name, passages, problem) => {
    await expect(CorpusIndex.build(passages, join(folder, name))).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringMatching(problem),
    });
  });

  test("passages that fail to come keep their error", async () => {
    async function* broken() {
      yield FEW[0] as Passage;
      throw new Error("the source broke");
    }
    await expect(CorpusIndex.build(broken(), join(folder, "broken"))).rejects.toThrow("the source broke");
    expect(builders()).toEqual([]);
  });

  test("a place that cannot be written", async () => {
    const file = join(folder, "a-file");
    await writeFile(file, "");
    await expect(CorpusIndex.build(FEW, join(file, "x"))).rejects.toMatchObject({ code: "IO" });
    await expect(CorpusIndex.build(FEW, file)).rejects.toMatchObject({ code: "IO" });
  });

  test("a folder with other things in it is left alone", async () => {
    const other = join(folder, "other");
    await mkdir(other);
    await writeFile(join(other, "notes.txt"), "x");
    await expect(CorpusIndex.build(FEW, other)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await readdir(other)).toEqual(["notes.txt"]);
  });

  test("a place of an unknown kind", async () => {
    await expect(CorpusIndex.build(FEW, "ftp://host/x")).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

describe("a builder in trouble", () => {
  test("abort ends the process too", async () => {
    const controller = new AbortController();
    const build = CorpusIndex.build(FEW, join(folder, "aborted"), { signal: controller.signal });
    await until(() => builders()[0]);
    controller.abort();
    await expect(build).rejects.toMatchObject({ code: "ABORTED" });
    expect(builders()).toEqual([]);
  });

  test("one that sleeps for ever is ended", async () => {
    const build = CorpusIndex.build(FEW, join(folder, "asleep"), { stallTimeoutMs: 1500 });
    process.kill(await until(() => builders()[0]), "SIGSTOP");
    await expect(build).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("no progress for 1.5 s"),
    });
    expect(builders()).toEqual([]);
  });

  test("one that dies is reported with its signal", async () => {
    const build = CorpusIndex.build(FEW, join(folder, "dead"));
    process.kill(await until(() => builders()[0]), "SIGKILL");
    await expect(build).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("SIGKILL"),
    });
  });

  test("a slow source is no stall, and a progress callback that throws ends the build with its error", async () => {
    async function* slow() {
      yield* FEW;
      await new Promise((done) => setTimeout(done, 6000));
      yield { id: "c", title: "", text: "late" };
    }
    const told: number[] = [];
    const build = CorpusIndex.build(slow(), join(folder, "callback"), {
      stallTimeoutMs: 4000,
      onProgress: ({ passages }) => {
        if (told.push(passages) >= 5) throw new Error("callback");
      },
    });
    await expect(build).rejects.toThrow("callback");
    expect(builders()).toEqual([]);
  });
});

describe("a build that was killed goes on", () => {
  /** Counts what it encodes, and can kill the builder in between. */
  class Counting implements EmbeddingModel {
    readonly #model = new HashedEmbedding({ dimensions: 32 });
    readonly name = this.#model.name;
    encoded = 0;
    constructor(readonly killAfter = Number.POSITIVE_INFINITY) {}

    async embed(texts: readonly string[], role: "query" | "passage"): Promise<Float32Array[]> {
      this.encoded += texts.length;
      if (this.encoded > this.killAfter) for (const pid of builders()) process.kill(pid, "SIGKILL");
      return this.#model.embed(texts, role);
    }
  }

  const passages = many(9000);

  test("without encoding again, and to the same index", async () => {
    const [killed, undisturbed] = [join(folder, "killed"), join(folder, "undisturbed")];
    const first = new Counting(5000);
    await expect(CorpusIndex.build(passages, killed, { embedding: first })).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("SIGKILL"),
    });
    const partial = await CorpusIndex.open(killed).catch((error: HindsearchError) => error);
    expect(partial).toMatchObject({ code: "INVALID_DATA", message: expect.stringContaining("not complete") });
    expect((await stored(killed)).length).toBe(2 * 2048);

    const second = new Counting();
    const manifest = await CorpusIndex.build(passages, killed, { embedding: second });
    // Beside the passages, the sentence that the model is recognised by.
    expect(second.encoded).toBe(9000 - 2 * 2048 + 1);
    expect(await CorpusIndex.build(passages, undisturbed, { embedding: new Counting() })).toEqual(manifest);
    expect(await stored(killed)).toEqual(await stored(undisturbed));
    const queries = passages.slice(0, 40).map(({ text }) => text);
    const [own, other] = [await answers(killed, queries), await answers(undisturbed, queries)];
    // Passages of equal score come in no fixed order: only the first of each list has a word of its own.
    expect(own.map(([first]) => first)).toEqual(other.map(([first]) => first));
    const scores = (lists: typeof own) => lists.map((list) => list.map(({ score }) => score));
    expect(scores(own)).toEqual(scores(other));
  });

  test("but not with another corpus, model or analyzer", async () => {
    const index = join(folder, "changed");
    const embedding = () => new Counting();
    await CorpusIndex.build(passages, index, { embedding: new Counting(5000) }).catch(() => undefined);
    const refused = { code: "INDEX_MISMATCH" };
    const changed = passages.map((passage, i) => (i === 17 ? { ...passage, text: "other" } : passage));
    await expect(CorpusIndex.build(changed, index, { embedding: embedding() })).rejects.toMatchObject(
      refused,
    );
    const fewer = passages.slice(0, 3000);
    await expect(CorpusIndex.build(fewer, index, { embedding: embedding() })).rejects.toMatchObject(refused);
    await expect(CorpusIndex.build(passages, index)).rejects.toMatchObject(refused);
    const other = new HashedEmbedding({ dimensions: 64 });
    await expect(CorpusIndex.build(passages, index, { embedding: other })).rejects.toMatchObject(refused);
    const english = { embedding: embedding(), analyzer: "english" } as const;
    await expect(CorpusIndex.build(passages, index, english)).rejects.toMatchObject(refused);
    expect((await CorpusIndex.build(passages, index, { embedding: embedding() })).passages).toBe(9000);
  });

  test("when it died while indexing", async () => {
    const index = join(folder, "half-indexed");
    await CorpusIndex.build(FEW, index);
    // As a builder leaves it that dies before the last note: everything is there but that.
    const database = await connect(index);
    const notes = await database.openTable("hindsearch");
    await notes.delete("note LIKE '%complete%'");
    notes.close();
    database.close();
    await expect(CorpusIndex.open(index)).rejects.toMatchObject({ code: "INVALID_DATA" });
    await CorpusIndex.build(FEW, index);
    expect((await answers(index, ["alpha"])).flat().map(({ id }) => id)).toEqual(["a"]);
  });
});

describe("a complete index", () => {
  test("is left as it is for the same corpus, and not overwritten by another", async () => {
    const index = join(folder, "complete");
    const manifest = await CorpusIndex.build(FEW, index);
    expect(manifest).toMatchObject({ passages: 2, checksum: await corpusChecksum(FEW), embedding: null });
    expect(await CorpusIndex.build(FEW, index)).toEqual(manifest);
    for (const other of [FEW.slice(1), [...FEW, { id: "c", title: "", text: "x" }], [...FEW].reverse()]) {
      await expect(CorpusIndex.build(other, index)).rejects.toMatchObject({ code: "INDEX_MISMATCH" });
    }
    expect((await answers(index, ["beta"])).flat().length).toBe(2);
  });

  test("is refused for another corpus than it is of", async () => {
    const index = join(folder, "checksum");
    await CorpusIndex.build(FEW, index);
    const checksum = await corpusChecksum(FEW);
    await (await CorpusIndex.open(index, { checksum })).close();
    const other = await corpusChecksum([...FEW].reverse());
    await expect(CorpusIndex.open(index, { checksum: other })).rejects.toMatchObject({
      code: "INDEX_MISMATCH",
      message: expect.stringContaining(other),
    });
  });

  test.each([
    [99, "INDEX_MISMATCH", "newer"],
    [1, "INDEX_MISMATCH", "older"],
    ["x", "INVALID_DATA", "damaged"],
  ])("of format %s is refused", async (format, code, word) => {
    const index = join(folder, `format-${format}`);
    await CorpusIndex.build(FEW, index);
    const database = await connect(index);
    await database.dropTable("hindsearch");
    const note = JSON.stringify({ kind: "settings", format, value: { analyzer: "plain", embedding: null } });
    await database.createTable("hindsearch", [{ number: 0, note }]);
    database.close();
    await expect(CorpusIndex.open(index)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(word),
    });
    await expect(CorpusIndex.build(FEW, index)).rejects.toMatchObject({ code });
  });
});

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CorpusIndex } from "../../lib/retrieval/embedded/corpus-index.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { readCorpus } from "../../lib/retrieval/sources/corpus.js";
import { describeShared, sharedPath } from "../support/shared.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-index-"));
});
afterAll(() => rm(folder, { recursive: true }));

const PASSAGES: Passage[] = [
  { id: "jaws", title: 'Jaws ("the shark")', text: "Jaws is a 1975 film by Spielberg.\nSecond line." },
  { id: "stalker", title: "Сталкер", text: "«Сталкер» — фильм Тарковского 1979 года." },
  { id: "tokyo", title: "", text: "Tokyo is the capital of Japan" },
];
const ids = (results: Passage[][]) => results.map((list) => list.map(({ id }) => id));

describe("a small index", () => {
  let retriever: CorpusIndex;
  beforeAll(async () => {
    await CorpusIndex.build(PASSAGES, join(folder, "small"));
    retriever = await CorpusIndex.open(join(folder, "small"));
  });
  afterAll(() => retriever.close());

  test("gives the passages back as they were, best first, with scores", async () => {
    expect(retriever.size).toBe(3);
    const [list] = await retriever.search(["Spielberg film 1975"], 3);
    expect(list).toEqual([{ ...PASSAGES[0], score: expect.any(Number) }]);
  });

  test("queries of any kind", async () => {
    const long = `${Array.from({ length: 3000 }, (_, i) => `word${i}`).join(" ")} Tokyo`;
    const queries = [
      "сталкер",
      "東京",
      "",
      "  ",
      "!?",
      "🎬",
      '"(*) OR AND NOT',
      "\u0000",
      "\ud800",
      long,
      "the THE the",
    ];
    const found = [["stalker"], [], [], [], [], [], [], [], [], ["tokyo"]];
    const results = ids(await retriever.search(queries, 3));
    expect(results.slice(0, -1)).toEqual(found);
    expect(results.at(-1)?.sort()).toEqual(["jaws", "tokyo"]);
  });

  test("topK cuts", async () => {
    expect(ids(await retriever.search(["the", "is"], 1)).map((list) => list.length)).toEqual([1, 1]);
  });

  test("no queries", async () => expect(await retriever.search([], 1)).toEqual([]));

  test.each([0, 2.5])("topK %d is refused", async (topK) => {
    await expect(retriever.search(["x"], topK)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("an aborted search rejects and the next one works", async () => {
    const controller = new AbortController();
    const search = retriever.search(Array(500).fill("the capital"), 3, { signal: controller.signal });
    controller.abort();
    await expect(search).rejects.toMatchObject({ code: "ABORTED" });
    expect(ids(await retriever.search(["tokyo"], 3))).toEqual([["tokyo"]]);
  });

  test("closing waits for running searches and refuses later ones", async () => {
    const other = await CorpusIndex.open(join(folder, "small"), { concurrency: 1 });
    const running = other.search(Array(20).fill("tokyo"), 1);
    const closing = other.close();
    await expect(other.search(["x"], 1)).rejects.toMatchObject({ code: "DISPOSED" });
    await closing;
    await other.close();
    expect(ids(await running)).toEqual(Array(20).fill(["tokyo"]));
  });
});

describe("what is no index", () => {
  test("a missing folder", async () => {
    await expect(CorpusIndex.open(join(folder, "missing"))).rejects.toMatchObject({
      code: "INVALID_DATA",
    });
  });

  test("a folder of other things", async () => {
    const other = join(folder, "other");
    await mkdir(other);
    await writeFile(join(other, "notes.txt"), "x");
    await expect(CorpusIndex.open(other)).rejects.toMatchObject({ code: "INVALID_DATA" });
  });

  test("a damaged index", async () => {
    const damaged = join(folder, "damaged");
    await CorpusIndex.build(PASSAGES, damaged);
    await rm(join(damaged, "passages.lance", "_indices"), { recursive: true });
    await expect(CorpusIndex.open(damaged)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
  });

  test("wrong settings", async () => {
    await expect(CorpusIndex.open(folder, { concurrency: 0 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describeShared("the real corpus", () => {
  const corpus = sharedPath("data", "corpus", "multihop.jsonl.gz");
  let lance: CorpusIndex;
  /** With Lance's constants. */
  let same: MemoryRetriever;
  /** With ours. */
  let ours: MemoryRetriever;
  beforeAll(async () => {
    await CorpusIndex.build(corpus, join(folder, "multihop"));
    lance = await CorpusIndex.open(join(folder, "multihop"));
    same = await MemoryRetriever.create(readCorpus(corpus), { k1: 1.2, b: 0.75 });
    ours = await MemoryRetriever.create(readCorpus(corpus));
  });
  afterAll(() => lance.close());

  interface Row {
    question: string;
    supporting: string[];
  }

  async function questions(...sets: string[]): Promise<Row[]> {
    const rows: Row[] = [];
    for (const set of sets) {
      const text = await readFile(sharedPath("data", "qa", `${set}.jsonl`), "utf8");
      for (const line of text.trim().split("\n")) {
        const { question, metadata } = JSON.parse(line);
        if (metadata.supporting_ids?.length) {
          rows.push({ question, supporting: [...new Set<string>(metadata.supporting_ids)] });
        }
      }
    }
    return rows;
  }

  /** Mean share of gold passages found, and share of questions with all of them found. */
  function recall(rows: Row[], results: Passage[][]) {
    let share = 0;
    let all = 0;
    for (const [i, { supporting }] of rows.entries()) {
      const found = new Set(results[i]?.map(({ id }) => id));
      const hits = supporting.filter((id) => found.has(id)).length;
      share += hits / supporting.length;
      all += hits === supporting.length ? 1 : 0;
    }
    return { share: share / rows.length, all: all / rows.length };
  }

  test("holds every passage", () => expect(lance.size).toBe(16_885));

  test("the two engines find the same top 3", async () => {
    const rows = await questions(
      "hotpotqa/dev_with_passages",
      "2wikimultihopqa/dev_1000",
      "musique/dev_with_passages",
    );
    const queries = rows.map(({ question }) => question);
    const [found, expected] = await Promise.all([lance.search(queries, 3), same.search(queries, 3)]);
    let overlap = 0;
    for (const [i, list] of expected.entries()) {
      const theirs = new Map(found[i]?.map((passage) => [passage.id, passage]));
      for (const { id, text, title, score } of list) {
        const other = theirs.get(id);
        if (other === undefined) continue;
        overlap++;
        expect(other).toMatchObject({ title, text });
        // Lance multiplies by k1 + 1 and computes in single precision, with its own idea of a few rare words.
        expect((other.score as number) / 2.2 / (score as number)).toBeCloseTo(1, 1);
      }
    }
    expect(overlap / (3 * rows.length)).toBeGreaterThan(0.99);
  });

  // data/README.md: a plain BM25 with k1 0.9 and b 0.4, on these questions and the part of them that is kept back.
  test.each([
    [["hotpotqa/dev_with_passages", "hotpotqa/train_with_passages"], 0.72, 0.48],
    [["2wikimultihopqa/dev_1000", "2wikimultihopqa/dev_with_passages"], 0.64, 0.4],
    [["musique/dev_with_passages", "musique/train_with_passages"], 0.49, 0.13],
  ])("recall at 5 on %s is near %d, all passages near %d", async (sets, share, all) => {
    const rows = await questions(...sets);
    const queries = rows.map(({ question }) => question);
    for (const retriever of [ours, lance]) {
      const measured = recall(rows, await retriever.search(queries, 5));
      // A sample of 200 to 750 questions: the standard error of the share is 0.01 to 0.02.
      expect(Math.abs(measured.share - share)).toBeLessThan(0.03);
      expect(Math.abs(measured.all - all)).toBeLessThan(0.035);
    }
  });

  test("searches give the same answers alone, at once and again", async () => {
    const queries = (await questions("musique/dev_with_passages"))
      .slice(0, 60)
      .map(({ question }) => question);
    const alone: Passage[] = [];
    for (const query of queries) alone.push(...((await lance.search([query], 3))[0] as Passage[]));
    const together = await Promise.all(queries.map((query) => lance.search([query], 3)));
    expect(together.flat(2)).toEqual(alone);
    expect((await lance.search(queries, 3)).flat()).toEqual(alone);
  });
});

import { beforeAll, describe, expect, test } from "vitest";
import { plainAnalyzer } from "../../lib/retrieval/analyzer.js";
import { MemoryRetriever, type MemoryRetrieverOptions } from "../../lib/retrieval/memory.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { TurnMeter } from "../support/turn-meter.js";

const passage = (id: string, text: string, title = ""): Passage => ({ id, title, text });
const ids = (results: Passage[][]) => results.map((list) => list.map(({ id }) => id));

/** The formula as it is written, passage by passage: slow and plain. */
function bruteForce(passages: Passage[], query: string, topK: number, k1 = 0.9, b = 0.4): Passage[] {
  const documents = passages.map(({ title, text }) => plainAnalyzer(`${title}\n${text}`));
  const mean = documents.reduce((sum, terms) => sum + terms.length, 0) / documents.length;
  const scored = documents.map((terms, d) => {
    let score = 0;
    for (const term of new Set(plainAnalyzer(query))) {
      const tf = terms.filter((other) => other === term).length;
      if (tf === 0) continue;
      const df = documents.filter((other) => other.includes(term)).length;
      const idf = Math.log(1 + (documents.length - df + 0.5) / (df + 0.5));
      score += (idf * tf) / (tf + k1 * (1 - b + (b * terms.length) / mean));
    }
    return { ...(passages[d] as Passage), score };
  });
  return scored
    .filter(({ score }) => score > 0)
    .sort((x, y) => y.score - x.score)
    .slice(0, topK);
}

/** Words with a skewed distribution from a small generator, so that ties and frequent words both occur. */
function randomPassages(count: number, seed: number): Passage[] {
  let state = seed;
  const random = () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
  return Array.from({ length: count }, (_, i) => {
    const words = Array.from(
      { length: 3 + Math.floor(random() * 20) },
      () => `w${Math.floor(random() ** 3 * 60)}`,
    );
    return passage(`p${i}`, words.join(" "), `t${i % 7}`);
  });
}

describe("BM25", () => {
  test.each([{}, { k1: 1.2, b: 0.75 }, { k1: 0, b: 0 }, { k1: 2, b: 1 }])(
    "equals the formula with %j",
    async (options) => {
      const passages = randomPassages(300, 7);
      const retriever = await MemoryRetriever.create(passages, options);
      const queries = [
        ...randomPassages(40, 11).map(({ title, text }) => `${title} ${text}`),
        "w0 w0 w0",
        "w59 unknown",
      ];
      const results = await retriever.search(queries, 8);
      for (const [q, query] of queries.entries()) {
        const expected = bruteForce(passages, query, 8, options.k1, options.b);
        expect(results[q]?.map(({ score }) => score)).toEqual(
          expected.map(({ score }) => expect.closeTo(score as number, 10)),
        );
        // The order of summation differs in the last bits, so only clearly different scores must agree in order.
        for (const [rank, { id, score }] of (results[q] as Passage[]).entries()) {
          const other = expected[rank] as Passage;
          if (id !== other.id)
            expect(Math.abs((score as number) - (other.score as number))).toBeLessThan(1e-10);
        }
      }
    },
  );

  test("by hand: two passages, one term", async () => {
    const retriever = await MemoryRetriever.create([
      passage("a", "toto toto drummer"),
      passage("b", "guitar"),
    ]);
    const [list] = await retriever.search(["Toto"], 3);
    // N = 2, df = 1: idf = ln 2; length 3 of mean 2; tf 2.
    expect(list).toEqual([
      {
        id: "a",
        title: "",
        text: "toto toto drummer",
        score: expect.closeTo((Math.LN2 * 2) / (2 + 0.9 * 1.2), 12),
      },
    ]);
  });

  test("long words are found whole", async () => {
    const retriever = await MemoryRetriever.create([
      passage("a", "internationalization of antidisestablishmentarianism"),
      passage("b", "nternationalization"),
    ]);
    const queries = ["internationalization", "Antidisestablishmentarianism", "nternationalization"];
    expect(ids(await retriever.search(queries, 3))).toEqual([["a"], ["a"], ["b"]]);
  });

  test("title and text are both searched", async () => {
    const retriever = await MemoryRetriever.create([
      passage("a", "x", "Stalker"),
      passage("b", "stalker", "y"),
    ]);
    expect(ids(await retriever.search(["stalker"], 5))).toEqual([["a", "b"]]);
  });

  test("equal scores keep the order of the corpus, at every topK", async () => {
    const passages = Array.from({ length: 50 }, (_, i) => passage(`p${i}`, i % 2 ? "red blue" : "blue red"));
    const retriever = await MemoryRetriever.create(passages);
    for (const topK of [1, 3, 49, 50, 1000]) {
      const expected = passages.slice(0, topK).map(({ id }) => id);
      expect(ids(await retriever.search(["red", "blue red"], topK))).toEqual([expected, expected]);
    }
  });

  test("a search leaves nothing behind for the next", async () => {
    const retriever = await MemoryRetriever.create(randomPassages(200, 3));
    const queries = ["w0 w1 w2", "w5", "w0"];
    const alone = await Promise.all(queries.map(async (query) => (await retriever.search([query], 5))[0]));
    expect(await retriever.search(queries, 5)).toEqual(alone);
    const concurrent = await Promise.all(queries.map((query) => retriever.search([query], 5)));
    expect(concurrent.flat()).toEqual(alone);
  });
});

describe("queries", () => {
  let retriever: MemoryRetriever;
  beforeAll(async () => {
    retriever = await MemoryRetriever.create([
      passage("zh", "东京是日本的首都"),
      passage("ar", "القاهرة عاصمة مصر"),
      passage("en", "Cairo is the capital of Egypt"),
    ]);
  });

  test("in any script, empty and without words", async () => {
    const queries = ["日本 首都", "عاصمة", "capital", "", "  ", "🎬", "!?", "constructor", "\ud800"];
    const found = [["zh"], ["ar"], ["en"], [], [], [], [], [], []];
    expect(ids(await retriever.search(queries, 3))).toEqual(found);
  });

  test("of 3,000 words", async () => {
    const words = Array.from({ length: 3000 }, (_, i) => `word${i}`);
    expect(ids(await retriever.search([[...words, "Cairo"].join(" ")], 3))).toEqual([["en"]]);
  });

  test("more passages asked for than there are", async () => {
    expect(ids(await retriever.search(["capital"], 10))).toEqual([["en"]]);
  });

  test("none", async () => {
    expect(await retriever.search([], 3)).toEqual([]);
  });

  test("an empty corpus", async () => {
    const empty = await MemoryRetriever.create([]);
    expect(await empty.search(["a", ""], 3)).toEqual([[], []]);
  });

  test.each([0, -1, 1.5, Number.NaN, "3"])("topK %j is refused", async (topK) => {
    await expect(retriever.search(["x"], topK as number)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test.each([{ queries: ["x", 3] }, { queries: "x" }, { queries: null }])(
    "$queries are refused",
    async ({ queries }) => {
      await expect(retriever.search(queries as unknown as string[], 3)).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    },
  );
});

describe("settings", () => {
  test.each([{ k1: -1 }, { k1: Number.NaN }, { k1: Number.POSITIVE_INFINITY }, { b: -0.1 }, { b: 1.1 }])(
    "%j are refused",
    async (options: MemoryRetrieverOptions) => {
      await expect(MemoryRetriever.create([], options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );

  test("a repeated id is refused by name", async () => {
    const twice = [passage("a", "x"), passage("b", "x"), passage("a", "y")];
    await expect(MemoryRetriever.create(twice)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/"a".*number 2/),
    });
  });

  test("an analyzer of one's own", async () => {
    const retriever = await MemoryRetriever.create([passage("a", "one,two"), passage("b", "two")], {
      analyzer: (text) => text.trim().split(","),
    });
    expect(ids(await retriever.search(["one", "two"], 3))).toEqual([["a"], ["b", "a"]]);
  });
});

describe("the event loop", () => {
  test("is not held up by a large batch, nor by many awaited searches", async () => {
    // A posting list of 60,000 per word: each search is milliseconds of work.
    const passages = Array.from({ length: 60_000 }, (_, i) => passage(`${i}`, `a b c d e f ${i}`));
    const retriever = await MemoryRetriever.create(passages);
    const turns = new TurnMeter();
    await retriever.search(Array(60).fill("a b c d e f"), 3);
    for (let i = 0; i < 60; i++) await retriever.search(["a b"], 3);
    // 120 searches of 120,000 to 360,000 postings: some 200 slices of 3 ms, with what the collector takes on top.
    const cpu = turns.stop();
    expect(cpu.length).toBeGreaterThan(40);
    expect(cpu[Math.floor(cpu.length * 0.9)]).toBeLessThan(12);
  });

  test("is not held up by passages and queries of megabytes, and nothing in them is lost", async () => {
    const words = Array.from({ length: 1_500_000 }, (_, i) => `w${(i * 7919) % 300_000}`).join(" ");
    const passages = [
      passage("words", words),
      passage("spaces", `${" ".repeat(10_000_000)}needle`),
      passage("no spaces", `${"東".repeat(1_000_000)} needle`),
    ];
    const turns = new TurnMeter();
    const retriever = await MemoryRetriever.create(passages);
    expect(ids(await retriever.search([`${words} needle`, "東", "w299999"], 3))).toEqual([
      ["words", "spaces", "no spaces"],
      ["no spaces"],
      ["words"],
    ]);
    // In one go the first passage and the long query take some 400 ms each, and the spaces 150 ms.
    const cpu = turns.stop();
    expect(cpu.length).toBeGreaterThan(100);
    expect(cpu[Math.floor(cpu.length * 0.9)]).toBeLessThan(12);
    expect(cpu.at(-1)).toBeLessThan(120);
  });

  test("an abort ends the search at once and leaves the retriever usable", async () => {
    const passages = Array.from({ length: 20_000 }, (_, i) => passage(`${i}`, `a b ${i}`));
    const controller = new AbortController();
    let analyzed = 0;
    const analyzer = (text: string) => {
      if (++analyzed === passages.length + 20) controller.abort(new Error("enough"));
      return plainAnalyzer(text);
    };
    const retriever = await MemoryRetriever.create(passages, { analyzer });
    const long = retriever.search(Array(2000).fill("a b"), 3, { signal: controller.signal });
    const waiting = retriever.search(["a"], 3, { signal: controller.signal });
    const other = retriever.search(["7"], 3);
    await expect(long).rejects.toMatchObject({ code: "ABORTED", cause: { message: "enough" } });
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    expect(ids(await other)).toEqual([["7"]]);
    expect(analyzed, "queries that were still looked at").toBe(passages.length + 21);
    expect(await retriever.search(["a"], 3)).toEqual(await retriever.search(["a"], 3));
    expect(ids(await retriever.search(["8"], 3))).toEqual([["8"]]);
  });

  test("an aborted signal searches nothing", async () => {
    const retriever = await MemoryRetriever.create([passage("a", "x")]);
    const signal = AbortSignal.abort();
    await expect(retriever.search(["x"], 3, { signal })).rejects.toMatchObject({ code: "ABORTED" });
    await expect(MemoryRetriever.create([passage("a", "x")], { signal })).rejects.toMatchObject({
      code: "ABORTED",
    });
  });

  test("a closed retriever says so", async () => {
    const retriever = await MemoryRetriever.create([passage("a", "x")]);
    await retriever.close();
    await retriever.close();
    await expect(retriever.search(["x"], 3)).rejects.toMatchObject({ code: "DISPOSED" });
  });
});

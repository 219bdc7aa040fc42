import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { CorpusIndex } from "../../lib/retrieval/embedded/corpus-index.js";
import type { CorpusIndexOptions } from "../../lib/retrieval/embedded/open-options.js";
import {
  type EmbeddingModel,
  innerProduct,
  normalize,
} from "../../lib/retrieval/embedding/embedding-model.js";
import { HashedEmbedding } from "../../lib/retrieval/embedding/hashed.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { Passage } from "../../lib/retrieval/passage.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-modes-"));
});
afterAll(() => rm(folder, { recursive: true }));

const DIMENSIONS = 48;
const TOPICS = 40;
const ids = (list: Passage[] | undefined) => list?.map(({ id }) => id);

/**
 * Knows what texts are about: `#t3` is topic 3, and `@k3` too, in another word. A text is near its topic's centre, at a distance that its
 * other words decide, so that every inner product can be computed here.
 */
class TopicModel implements EmbeddingModel {
  readonly name = "topics";
  readonly #centres = Array.from({ length: TOPICS }, (_, t) => gaussian(`centre ${t}`));

  async embed(texts: readonly string[]): Promise<Float32Array[]> {
    return texts.map((text) => this.vector(text));
  }

  vector(text: string): Float32Array {
    const topic = Number(/[#@][tk](\d+)/.exec(text)?.[1] ?? 0);
    const centre = this.#centres[topic] as Float32Array;
    return normalize(gaussian(text).map((x, i) => 0.6 * x + (centre[i] as number)));
  }
}

/** The same for the same text. */
function gaussian(text: string): Float32Array {
  const random = new Random("topic", text);
  return Float32Array.from({ length: DIMENSIONS }, () => {
    const [u, v] = [1 - random.float(), random.float()];
    return Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v);
  });
}

const model = new TopicModel();
const passages = (count: number): Passage[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `p${i}`,
    title: `Title ${i}`,
    text: `#t${i % TOPICS} common w${i % 13} w${i % 7} unique${i}`,
  }));

/** The exact ranking, from the definition. */
class Truth {
  readonly #vectors: Float32Array[];
  constructor(readonly corpus: readonly Passage[]) {
    this.#vectors = corpus.map(({ title, text }) => model.vector(`"${title}"\n${text}`));
  }

  nearest(query: string, topK: number): Passage[] {
    const target = model.vector(query);
    const scored = this.corpus.map((passage, i) => ({
      ...passage,
      score: innerProduct(target, this.#vectors[i] as Float32Array),
    }));
    return scored.sort((x, y) => y.score - x.score).slice(0, topK);
  }
}

describe("a small index with vectors", () => {
  const corpus = passages(600);
  const queries = Array.from({ length: 25 }, (_, i) => `#t${(i * 3) % TOPICS} common unique${i * 11}`);
  const open = (options: CorpusIndexOptions = {}) =>
    CorpusIndex.open(join(folder, "small"), { embedding: model, ...options });
  beforeAll(async () => {
    const manifest = await CorpusIndex.build(corpus, join(folder, "small"), { embedding: model });
    expect(manifest.vectorIndex).toBeNull();
  });

  test("dense search is exact", async () => {
    const truth = new Truth(corpus);
    const index = await open({ mode: "dense" });
    const found = await index.search(queries, 5);
    for (const [i, query] of queries.entries()) {
      const expected = truth.nearest(query, 5);
      expect(ids(found[i])).toEqual(ids(expected));
      for (const [k, passage] of expected.entries()) {
        expect(found[i]?.[k]).toMatchObject({ title: passage.title, text: passage.text });
        expect(found[i]?.[k]?.score).toBeCloseTo(passage.score as number, 5);
      }
    }
    await index.close();
  });

  test("lexical search is that of an index without vectors", async () => {
    const index = await open({ mode: "lexical", embedding: undefined });
    await CorpusIndex.build(corpus, join(folder, "plain"));
    const plain = await CorpusIndex.open(join(folder, "plain"));
    expect(await index.search(queries, 5)).toEqual(await plain.search(queries, 5));
    await Promise.all([index.close(), plain.close()]);
  });

  test("hybrid search is the reciprocal rank fusion of the two, and the default", async () => {
    const [k, depth] = [20, 30];
    const hybrid = await open({ fusion: { k, depth } });
    const lexical = await open({ mode: "lexical" });
    const dense = await open({ mode: "dense" });
    const [both, words, vectors] = await Promise.all([
      hybrid.search(queries, 8),
      lexical.search(queries, depth),
      dense.search(queries, depth),
    ]);
    for (const i of queries.keys()) {
      const scores = new Map<string, number>();
      for (const list of [words[i], vectors[i]]) {
        for (const [rank, { id }] of (list ?? []).entries()) {
          scores.set(id, (scores.get(id) ?? 0) + 1 / (k + rank + 1));
        }
      }
      const best = [...scores].sort((x, y) => y[1] - x[1]).slice(0, 8);
      expect(both[i]?.map(({ score }) => score)).toEqual(best.map(([, score]) => score));
      for (const { id, score } of both[i] ?? []) expect(score).toBe(scores.get(id));
    }
    await Promise.all([hybrid, lexical, dense].map((index) => index.close()));
  });

  test("a query that words answer and one that vectors answer: hybrid finds both", async () => {
    // The first has the only passage with a word, but another topic; the second shares no word with its topic's passages.
    const [byWord, byTopic] = ["@k5 unique123", "@k17 nothing"];
    const wanted = [
      new Set(["p123"]),
      new Set(corpus.filter((_, i) => i % TOPICS === 17).map(({ id }) => id)),
    ];
    const share = async (mode: "lexical" | "dense" | "hybrid") => {
      const index = await open({ mode });
      const lists = await index.search([byWord, byTopic], 10);
      await index.close();
      return lists.map((list, i) => list.filter(({ id }) => wanted[i]?.has(id)).length);
    };
    const [words, vectors, both] = [await share("lexical"), await share("dense"), await share("hybrid")];
    expect(words[0]).toBe(1);
    expect(vectors[0]).toBe(0);
    expect(vectors[1]).toBe(10);
    expect(both[0]).toBe(1);
    expect(both[1]).toBe(10);
  });

  test("queries without words find nothing, whatever the model says, and it is not asked", async () => {
    let asked: readonly string[] = [];
    const watched: EmbeddingModel = {
      name: model.name,
      embed: async (texts) => {
        asked = texts;
        return model.embed(texts);
      },
    };
    for (const mode of ["dense", "hybrid"] as const) {
      const index = await open({ mode, embedding: watched });
      const found = await index.search(["", "?!", "#t3 common", " "], 2);
      expect(found.map(({ length }) => length)).toEqual([0, 0, 2, 0]);
      expect(asked).toEqual(["#t3 common"]);
      await index.close();
    }
  });

  test("a model that misbehaves is an error, never an empty result", async () => {
    const answers: [string, (texts: readonly string[]) => Promise<Float32Array[]>][] = [
      ["RETRIEVAL_FAILED", async () => []],
      ["INDEX_MISMATCH", async (texts) => texts.map(() => new Float32Array(7).fill(1))],
      ["RETRIEVAL_FAILED", async (texts) => texts.map(() => new Float32Array(DIMENSIONS).fill(Number.NaN))],
      ["RETRIEVAL_FAILED", async (texts) => texts.map(() => [1, 2] as unknown as Float32Array)],
    ];
    for (const [code, answer] of answers) {
      const bad: EmbeddingModel = {
        name: model.name,
        embed: (texts, role) => (role === "query" ? answer(texts) : model.embed(texts)),
      };
      const index = await open({ mode: "dense", embedding: bad });
      await expect(index.search(["#t1 common"], 2)).rejects.toMatchObject({ code });
      await index.close();
    }
  });

  test.each([
    [{ mode: "dense", embedding: undefined }, "INVALID_ARGUMENT"],
    [{ mode: "other" }, "INVALID_ARGUMENT"],
    [{ probes: 0 }, "INVALID_ARGUMENT"],
    [{ fusion: { k: -1 } }, "INVALID_ARGUMENT"],
    [{ fusion: { depth: 0 } }, "INVALID_ARGUMENT"],
    [{ embedding: new HashedEmbedding({ dimensions: DIMENSIONS }) }, "INDEX_MISMATCH"],
  ])("%j is refused with %s", async (options, code) => {
    await expect(open(options as CorpusIndexOptions)).rejects.toMatchObject({ code });
  });

  test("an index without vectors is refused for dense search", async () => {
    await CorpusIndex.build(corpus, join(folder, "plain"));
    const opening = CorpusIndex.open(join(folder, "plain"), { embedding: model });
    await expect(opening).rejects.toMatchObject({
      code: "INDEX_MISMATCH",
      message: expect.stringContaining("without vectors"),
    });
  });
});

describe("a larger index with vectors", () => {
  const corpus = passages(6000);

  test("is searched approximately, with the recall that its manifest says", async () => {
    const place = join(folder, "large");
    const manifest = await CorpusIndex.build(corpus, place, { embedding: model, exactBelow: 5000 });
    expect(manifest.vectorIndex).toMatchObject({ partitions: 39, probes: 13 });
    expect(manifest.vectorIndex?.recall).toBeGreaterThan(0.9);
    const truth = new Truth(corpus);
    const queries = Array.from({ length: 60 }, (_, i) => `#t${i % TOPICS} question ${i}`);
    const recall = async (options: CorpusIndexOptions) => {
      const index = await CorpusIndex.open(place, { embedding: model, mode: "dense", ...options });
      const found = await index.search(queries, 10);
      await index.close();
      const hits = found.map((list, i) => {
        const exact = new Set(ids(truth.nearest(queries[i] as string, 10)));
        return list.filter(({ id }) => exact.has(id)).length;
      });
      return hits.reduce((sum, count) => sum + count, 0) / (10 * queries.length);
    };
    expect(await recall({})).toBeGreaterThan(0.9);
    expect(await recall({ probes: 39 })).toBeGreaterThan(0.97);
    expect(await recall({ probes: 1 })).toBeLessThan(await recall({ probes: 39 }));
  });
});

describe("analyzers", () => {
  const corpus: Passage[] = [
    { id: "swim", title: "", text: "She swims in the river" },
    { id: "the", title: "", text: "The The is a band" },
  ];

  test("plain keeps words apart, english joins forms and ignores stop words", async () => {
    const search = async (analyzer: "plain" | "english", query: string) => {
      const place = join(folder, `analyzer-${analyzer}`);
      await CorpusIndex.build(corpus, place, { analyzer });
      const index = await CorpusIndex.open(place);
      const [found] = await index.search([query], 5);
      await index.close();
      return ids(found);
    };
    expect(await search("plain", "swimming")).toEqual([]);
    expect(await search("english", "swimming")).toEqual(["swim"]);
    expect(await search("plain", "the")).toEqual(["the", "swim"]);
    expect(await search("english", "the")).toEqual([]);
    const place = join(folder, "analyzer-english");
    await expect(CorpusIndex.build(corpus, place, { analyzer: "plain" })).rejects.toMatchObject({
      code: "INDEX_MISMATCH",
    });
    const wrong = { analyzer: "french" } as never;
    await expect(CorpusIndex.build(corpus, join(folder, "french"), wrong)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("the hashed model", () => {
  test("gives the same unit vectors every time, near for like spellings", async () => {
    const hashed = new HashedEmbedding();
    const texts = ["the colour red", "the colours red", "nuclear physics", "", "東京は日本の首都"];
    const vectors = await hashed.embed(texts, "passage");
    expect(await new HashedEmbedding().embed(texts, "query")).toEqual(vectors);
    const [red, reds, physics, empty, tokyo] = vectors as [Float32Array, ...Float32Array[]];
    for (const vector of [red, tokyo as Float32Array]) expect(innerProduct(vector, vector)).toBeCloseTo(1, 5);
    expect(empty?.every((x) => x === 0)).toBe(true);
    expect(innerProduct(red, reds as Float32Array)).toBeGreaterThan(0.6);
    expect(Math.abs(innerProduct(red, physics as Float32Array))).toBeLessThan(0.3);
    expect(() => new HashedEmbedding({ dimensions: 2 })).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });

  test("as good as words on a corpus where spellings decide", async () => {
    const memory = await MemoryRetriever.create(passages(300));
    const place = join(folder, "hashed");
    const embedding = new HashedEmbedding({ dimensions: 512 });
    await CorpusIndex.build(passages(300), place, { embedding });
    const index = await CorpusIndex.open(place, { embedding, mode: "dense" });
    const queries = [7, 77, 177, 277].map((i) => `unique${i}`);
    expect((await index.search(queries, 1)).map(ids)).toEqual((await memory.search(queries, 1)).map(ids));
    await index.close();
  });
});

import { afterEach, describe, expect, test } from "vitest";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import { RerankedRetriever, type RerankedRetrieverOptions } from "../../lib/retrieval/reranked.js";
import { type Handler, loopbackServer, sendJson } from "../support/loopback-server.js";
import { drop, first, raw, status } from "../support/misbehaviour.js";

const KEY = "canary-key-rerank-31";
const PASSAGES = Array.from({ length: 8 }, (_, i) => ({
  id: `p${i}`,
  title: i === 0 ? "" : `T${i}`,
  text: `word ${"x".repeat(i)}`,
}));

/** Longer texts are better, sorted as servers do. */
const ranked = (texts: string[]) =>
  texts.map((text, index) => ({ index, score: text.length })).sort((x, y) => y.score - x.score);
const tei: Handler = ({ body }, response) => sendJson(response, ranked(body.texts));
const cohere: Handler = ({ body }, response) =>
  sendJson(response, {
    results: ranked(body.documents).map(({ index, score }) => ({ index, relevance_score: score })),
  });

const server = loopbackServer(tei);
const made: RerankedRetriever[] = [];
afterEach(async () => {
  for (const retriever of made.splice(0)) await retriever.close();
});

async function retriever(handler: Handler, options: Partial<RerankedRetrieverOptions> = {}) {
  server.current.handler = handler;
  const url = `${server.current.origin}/rerank`;
  const inner = await MemoryRetriever.create(PASSAGES);
  const outer = new RerankedRetriever(inner, { url, apiKey: KEY, baseDelayMs: 5, retries: 1, ...options });
  made.push(outer);
  return outer;
}

describe("both forms", () => {
  test.each([
    ["tei", tei, {}, "texts"],
    ["cohere", cohere, { model: "ranker" }, "documents"],
  ])("%s", async (_name, handler, options, field) => {
    const outer = await retriever(handler, options);
    const [found, none] = await outer.search(["word", "missing"], 3);
    expect(none).toEqual([]);
    expect(found?.map(({ id }) => id)).toEqual(["p7", "p6", "p5"]);
    expect(found?.[0]).toMatchObject({ ...PASSAGES[7], score: 15 });
    const [request, ...others] = server.current.requests;
    expect(others).toEqual([]);
    expect(request?.body).toMatchObject({ query: "word", [field]: expect.any(Array) });
    expect(request?.body[field]).toContain("T6\nword xxxxxx");
    expect(request?.body.model).toBe((options as { model?: string }).model);
  });

  test("no more candidates than told are asked for and sent", async () => {
    const outer = await retriever(tei, { candidates: 4, maxTextLength: 5 });
    await outer.search(["word"], 2);
    expect(server.current.requests[0]?.body.texts).toHaveLength(4);
    const texts: string[] = server.current.requests[0]?.body.texts;
    expect(texts.every(({ length }) => length === 5)).toBe(true);
    await outer.search(["word"], 6);
    expect(server.current.requests[1]?.body.texts).toHaveLength(6);
  });
});

describe("faults", () => {
  test("what passes is repeated", async () => {
    const outer = await retriever(first(1, drop, tei));
    expect((await outer.search(["word"], 1))[0]?.[0]?.id).toBe("p7");
  });

  const answers = (value: unknown) => raw((response) => sendJson(response, value));
  test.each([
    ["another form", answers({ results: [] }), /does not rank/],
    ["too few", answers([{ index: 0, score: 1 }]), /1 scores for 8/],
    ["one twice", answers(PASSAGES.map(() => ({ index: 0, score: 1 }))), /no score for text 1/],
    ["a refusal", status(403, {}, KEY), /403/],
    ["an outage", status(500), /500/],
  ])("%s fails the search, without secrets", async (_name, handler, message) => {
    const outer = await retriever(handler);
    const error = await outer.search(["word"], 1).catch((caught) => caught);
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringMatching(message) });
    expect(`${error.message}${error.stack}`).not.toContain(KEY);
  });

  test("closing closes both", async () => {
    const outer = await retriever(tei);
    await outer.close();
    await expect(outer.search(["word"], 1)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  test("wrong options", async () => {
    await expect(retriever(tei, { dialect: "cohere" })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(retriever(tei, { candidates: 0 })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

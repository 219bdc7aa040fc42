import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { CorpusIndex } from "../../lib/retrieval/embedded/corpus-index.js";
import { HashedEmbedding } from "../../lib/retrieval/embedding/hashed.js";
import { HttpEmbedding, type HttpEmbeddingOptions } from "../../lib/retrieval/embedding/http.js";
import { type Handler, loopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";
import { drop, first, hang, raw, slow, status } from "../support/misbehaviour.js";

const KEY = "canary-key-embed-77";
/** A vector that tells which text it is of. */
const vector = (text: string) => [text.length, text.charCodeAt(0) || 0, -1.5];
const unit = (values: number[]) => {
  const size = Math.hypot(...values);
  return Float32Array.from(values.map((value) => value / size));
};
const base64 = (values: number[]) => Buffer.from(Float32Array.from(values).buffer).toString("base64");

const openai: Handler = ({ body }, response) => {
  const data = body.input.map((text: string, index: number) => ({
    index,
    embedding: body.encoding_format === "base64" ? base64(vector(text)) : vector(text),
  }));
  // Servers may answer in any order.
  sendJson(response, { data: data.reverse(), usage: { total_tokens: 1 } });
};
const tei: Handler = ({ body }, response) => sendJson(response, body.inputs.map(vector));

const server = loopbackServer(openai);
const models: HttpEmbedding[] = [];
afterEach(async () => {
  for (const model of models.splice(0)) await model.close();
});

function model(handler: Handler = openai, options: Partial<HttpEmbeddingOptions> = {}): HttpEmbedding {
  server.current.handler = handler;
  const url = `${server.current.origin}/v1/embeddings`;
  const fast = { baseDelayMs: 5, maxDelayMs: 20 };
  const made = new HttpEmbedding({ url, model: "test", apiKey: KEY, ...fast, ...options });
  models.push(made);
  return made;
}
const teiUrl = () => ({ url: `${server.current.origin}/embed` });
const bodies = () => server.current.requests.map(({ body }: ReceivedRequest) => body);

describe("what is asked and understood", () => {
  test("OpenAI's form, as base64 and in any order", async () => {
    const found = await model().embed(["a", "bcd"], "query");
    expect(found).toEqual([unit(vector("a")), unit(vector("bcd"))]);
    expect(bodies()).toEqual([{ model: "test", input: ["a", "bcd"], encoding_format: "base64" }]);
    expect(server.current.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  test("OpenAI's form with numbers, from a server that knows no base64", async () => {
    const plain: Handler = ({ body }, response) =>
      sendJson(response, {
        data: body.input.map((text: string, index: number) => ({ index, embedding: vector(text) })),
      });
    const found = await model(plain, { normalize: false }).embed(["xyz"], "query");
    expect(found).toEqual([Float32Array.from(vector("xyz"))]);
  });

  test("text-embeddings-inference", async () => {
    const found = await model(tei, { ...teiUrl(), normalize: false }).embed(["a", "bcd"], "passage");
    expect(found).toEqual([Float32Array.from(vector("a")), Float32Array.from(vector("bcd"))]);
    expect(bodies()).toEqual([{ inputs: ["a", "bcd"], normalize: false, truncate: true }]);
  });

  test.each([
    ["mean", [2, 3]],
    ["cls", [1, 5]],
  ] as const)("token vectors, pooled here: %s", async (pooling, expected) => {
    const tokens = raw((response) =>
      sendJson(response, [
        [
          [1, 5],
          [3, 1],
        ],
      ]),
    );
    const url = `${server.current.origin}/embed_all`;
    const found = await model(tokens, { url, pooling, normalize: false }).embed(["x"], "query");
    expect(found).toEqual([Float32Array.from(expected)]);
  });

  test.each([
    ["intfloat/e5-base-v2", {}, "query: q", "passage: p"],
    ["BAAI/bge-base-en-v1.5", {}, "Represent this sentence for searching relevant passages: q", "p"],
    ["BAAI/bge-m3", {}, "q", "p"],
    ["e5", { prefixes: { query: "Q> " } }, "Q> q", "passage: p"],
    ["e5", { prefixes: { query: "", passage: "" } }, "q", "p"],
  ])("prefixes of %s with %j", async (name, options, query, passage) => {
    const embedding = model(openai, { model: name, ...options });
    await embedding.embed(["q"], "query");
    await embedding.embed(["p"], "passage");
    expect(bodies().map(({ input }) => input)).toEqual([[query], [passage]]);
  });

  test("batches, a few at once, and texts that are cut", async () => {
    const texts = Array.from({ length: 10 }, (_, i) => "x".repeat(i + 1));
    const embedding = model(slow(20, openai), { batchSize: 3, concurrency: 2, maxTextLength: 6 });
    const found = await embedding.embed(texts, "passage");
    expect(found).toEqual(texts.map((text) => unit(vector(text.slice(0, 6)))));
    expect(bodies().map(({ input }) => input.length)).toEqual([3, 3, 3, 1]);
    expect(server.current.peak).toBe(2);
    expect(await embedding.embed([], "query")).toEqual([]);
  });
});

describe("faults", () => {
  const few = { retries: 2 };

  test.each([
    ["drops", first(2, drop, openai)],
    ["429", first(2, status(429), openai)],
    ["503", first(2, status(503), openai)],
    ["no JSON", first(2, status(200, {}, "<html>"), openai)],
    ["time-outs", first(1, hang, openai)],
  ])("%s pass", async (_name, handler) => {
    expect(await model(handler, { ...few, timeoutMs: 300 }).embed(["a"], "query")).toHaveLength(1);
  });

  test("a batch that is too large is halved", async () => {
    const small: Handler = (request, response, index) =>
      request.body.input.length > 2
        ? status(413)(request, response, index)
        : openai(request, response, index);
    const texts = ["a", "bb", "ccc", "dddd", "eeeee"];
    const found = await model(small, few).embed(texts, "query");
    expect(found).toEqual(texts.map((text) => unit(vector(text))));
  });

  const answers = (data: unknown) => raw((response) => sendJson(response, data));
  const one = (embedding: unknown, index = 0) => ({ data: [{ index, embedding }] });
  test.each([
    ["another form", answers({ embeddings: [] }), /"data"/],
    ["too few", answers({ data: [] }), /0 vectors for 1 texts/],
    ["a foreign index", answers(one([1, 2], 3)), /index 3/],
    ["an empty vector", answers(one([])), /empty/],
    ["half a number in base64", answers(one("AAAA")), /3 bytes/],
    [
      "what is not finite",
      answers(one(Buffer.from(Float32Array.of(Number.NaN).buffer).toString("base64"))),
      /finite/,
    ],
    ["a refusal", status(401, {}, `bad key ${KEY}`), /401/],
    ["nothing but failures", status(500), /500.*3 attempts/],
  ])("%s is an error without secrets", async (_name, handler, message) => {
    const error = await model(handler, few)
      .embed(["a"], "query")
      .catch((caught) => caught);
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringMatching(message) });
    expect(JSON.stringify([error.message, error.stack])).not.toContain(KEY);
  });

  test("vectors of another length than asked for", async () => {
    await expect(model(openai, { dimensions: 4 }).embed(["a"], "query")).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("3 numbers where 4"),
    });
    expect(bodies()[0].dimensions).toBe(4);
  });

  test("abort, and use after close", async () => {
    const embedding = model(hang);
    const controller = new AbortController();
    const call = embedding.embed(["a"], "query", { signal: controller.signal });
    setTimeout(() => controller.abort(), 30);
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    await embedding.close();
    await expect(embedding.embed(["a"], "query")).rejects.toMatchObject({ code: "DISPOSED" });
  });

  test.each([{ url: "ftp://x/y" }, { batchSize: 0 }, { pooling: "max" }, { unknown: 1 }])(
    "wrong options: %j",
    (options) => {
      expect(() => model(openai, options as object)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    },
  );
});

describe("an index and its model", () => {
  const hashed = new HashedEmbedding({ dimensions: 16 });
  /** Serves the hashed model, with or without a change. */
  const serve =
    (change: (values: Float32Array) => Float32Array): Handler =>
    async ({ body }, response) => {
      const vectors = await hashed.embed(body.input, "query");
      const data = vectors.map((values, index) => ({ index, embedding: [...change(values)] }));
      sendJson(response, { data });
    };

  test("a server whose model changed behind its name is recognised, one that rounds is not", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-model-"));
    try {
      const passages = [{ id: "a", title: "", text: "alpha" }];
      await CorpusIndex.build(passages, folder, { embedding: model(serve((values) => values)) });
      const rounding = model(serve((values) => values.map((value) => Math.round(value * 256) / 256)));
      await (await CorpusIndex.open(folder, { embedding: rounding })).close();
      const changes: [Handler, object, RegExp][] = [
        [serve((values) => Float32Array.from(values).reverse()), {}, /other vectors/],
        [serve((values) => values.map((value) => 3 * value)), { normalize: false }, /other vectors/],
        [serve((values) => values.slice(1)), {}, /15 numbers.*16/],
        [serve((values) => values), { model: "another" }, /test, not another/],
      ];
      for (const [handler, options, message] of changes) {
        await expect(CorpusIndex.open(folder, { embedding: model(handler, options) })).rejects.toMatchObject({
          code: "INDEX_MISMATCH",
          message: expect.stringMatching(message),
        });
      }
      const down = model(status(500), { retries: 0 });
      await expect(CorpusIndex.open(folder, { embedding: down })).rejects.toMatchObject({
        code: "RETRIEVAL_FAILED",
      });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

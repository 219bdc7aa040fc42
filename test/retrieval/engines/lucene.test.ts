// Contract tests: neither engine can be installed here. The official clients ask a loopback server; requests are compared
// with, and answers built from, what the vendors publish: Elasticsearch 9 API reference, "Run multiple searches" and
// "Search" (elastic.co/docs/api/doc/elasticsearch); OpenSearch 3 documentation, "Multi-search", "Search" and "k-NN query"
// (docs.opensearch.org).
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { ElasticsearchRetriever } from "../../../lib/retrieval/engines/elasticsearch.js";
import type { LuceneOptions } from "../../../lib/retrieval/engines/lucene.js";
import { OpenSearchRetriever } from "../../../lib/retrieval/engines/opensearch.js";
import { type Handler, LoopbackServer, loopbackServer, sendJson } from "../../support/loopback-server.js";
import { breakOff, drop, first, flood, hang, status, trickle } from "../../support/misbehaviour.js";

const KEY = "canary-key-5f2c9a";

const hit = (id: string, score: number, source: object) => ({
  _index: "wiki",
  _id: id,
  _score: score,
  _source: source,
});
const found = (hits: object[], more = {}) => ({
  took: 2,
  timed_out: false,
  _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
  hits: { total: { value: hits.length, relation: "eq" }, max_score: 3.1, hits },
  status: 200,
  ...more,
});
const failed = (code: number, type: string, reason: string) => ({
  error: { root_cause: [{ type, reason }], type, reason },
  status: code,
});
const queryOf = (body: { query: { multi_match: { query: string } } }) => body.query.multi_match.query;
const answerTo = (query: string) =>
  found([hit(`id-${query}`, 3.1, { title: `T ${query}`, text: query }), hit("other", 1.5, { text: "x" })]);
const json =
  (value: unknown): Handler =>
  (_request, response) =>
    sendJson(response, value, 200, PRODUCT);
const PRODUCT = { "x-elastic-product": "Elasticsearch" };
/** Every second line is a search. */
const searchesOf = (body: unknown[]) => body.filter((_, i) => i % 2 === 1) as Parameters<typeof queryOf>[0][];
const correct: Handler = ({ body }, response) =>
  sendJson(
    response,
    { took: 3, responses: searchesOf(body).map((search) => answerTo(queryOf(search))) },
    200,
    PRODUCT,
  );

const server = loopbackServer(correct);
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const retriever of opened.splice(0)) await retriever.close();
});

const ENGINES = {
  Elasticsearch: (options: LuceneOptions) => new ElasticsearchRetriever({ apiKey: KEY, ...options }),
  OpenSearch: (options: LuceneOptions) =>
    new OpenSearchRetriever({ username: "reader", password: KEY, ...options }),
};

describe.each(["Elasticsearch", "OpenSearch"] as const)("%s", (engine) => {
  function use(handler: Handler = correct, options: Partial<LuceneOptions> = {}) {
    server.current.handler = handler;
    const fast = { baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 2 };
    const retriever = ENGINES[engine]({ url: server.current.origin, index: "wiki-*", ...fast, ...options });
    opened.push(retriever);
    return retriever;
  }

  test("asks as published, and reads the answer", async () => {
    expect(await use().search(["a", 'b"}\n{"index":"secret"}'], 2)).toEqual([
      [
        { id: "id-a", title: "T a", text: "a", score: 3.1 },
        { id: "other", title: "", text: "x", score: 1.5 },
      ],
      [
        { id: 'id-b"}\n{"index":"secret"}', title: expect.any(String), text: expect.any(String), score: 3.1 },
        { id: "other", title: "", text: "x", score: 1.5 },
      ],
    ]);
    const [request] = server.current.requests;
    expect(request).toMatchObject({
      method: "POST",
      path: expect.stringMatching(/^\/wiki-(\*|%2A)\/_msearch$/),
      headers: {
        "accept-encoding": "identity",
        "content-type": {
          Elasticsearch: "application/vnd.elasticsearch+x-ndjson; compatible-with=9",
          OpenSearch: "application/x-ndjson",
        }[engine],
        authorization: {
          Elasticsearch: `ApiKey ${KEY}`,
          OpenSearch: `Basic ${Buffer.from(`reader:${KEY}`).toString("base64")}`,
        }[engine],
      },
    });
    const search = (query: string) => ({
      size: 2,
      _source: ["title", "text"],
      query: { multi_match: { query, type: "cross_fields", operator: "or", fields: ["title", "text"] } },
    });
    expect(request?.body).toEqual([{}, search("a"), {}, search('b"}\n{"index":"secret"}')]);
  });

  test("nearest neighbours", async () => {
    const handler = json({ responses: [found([hit("1", 0.9, { body: "x" })])] });
    const embedding = { name: "one", embed: async () => [Float32Array.of(0.5, -1)] };
    const search = { kind: "knn" } as const;
    const lists = await use(handler, { search, embedding, fields: { text: "body" } }).search(["a"], 3);
    expect(lists).toEqual([[{ id: "1", title: "", text: "x", score: 0.9 }]]);
    expect(server.current.requests[0]?.body[1]).toEqual({
      size: 3,
      _source: ["title", "body"],
      ...{
        Elasticsearch: { knn: { field: "embedding", query_vector: [0.5, -1], k: 3, num_candidates: 100 } },
        OpenSearch: { query: { knn: { embedding: { vector: [0.5, -1], k: 3 } } } },
      }[engine],
    });
  });

  test("of a 200 answer only the searches that were rejected are repeated", async () => {
    const rejected = failed(429, "es_rejected_execution_exception", "rejected execution of search");
    const handler: Handler = ({ body }, response, index) => {
      const responses = searchesOf(body).map((search) =>
        index === 0 && queryOf(search) === "b" ? rejected : answerTo(queryOf(search)),
      );
      sendJson(response, { responses }, 200, PRODUCT);
    };
    const lists = await use(handler).search(["a", "b", "c"], 1);
    expect(lists.map(([passage]) => passage?.id)).toEqual(["id-a", "id-b", "id-c"]);
    expect(server.current.requests.map(({ body }) => searchesOf(body).map(queryOf))).toEqual([
      ["a", "b", "c"],
      ["b"],
    ]);
  });

  test("a search that cannot succeed fails alone", async () => {
    const handler: Handler = ({ body }, response) => {
      const wrong = failed(400, "search_phase_execution_exception", "all shards failed");
      const responses = searchesOf(body).map((search) =>
        queryOf(search) === "b" ? wrong : answerTo(queryOf(search)),
      );
      sendJson(response, { responses }, 200, PRODUCT);
    };
    const retriever = use(handler);
    const [a, b] = await Promise.allSettled(["a", "b"].map((query) => retriever.search([query], 1)));
    expect(a).toMatchObject({ status: "fulfilled", value: [[{ id: "id-a" }]] });
    expect(b).toMatchObject({
      reason: {
        code: "RETRIEVAL_FAILED",
        message: expect.stringContaining('status 400: "search_phase_execution_exception: all shards failed"'),
      },
    });
    expect(server.current.requests).toHaveLength(1);
  });

  test.each<[string, object, string]>([
    [
      "shards that failed",
      { _shards: { total: 2, successful: 1, skipped: 0, failed: 1 } },
      "1 shards failed",
    ],
    ["a search that timed out in the cluster", { timed_out: true }, "timed out in the cluster"],
  ])("%s are no result", async (_name, more, message) => {
    const handler = json({ responses: [found([], more)] });
    await expect(use(handler, { retries: 1 }).search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining(message),
    });
    expect(server.current.requests).toHaveLength(2);
  });

  test.each<[string, Handler, Partial<LuceneOptions>]>([
    ["429 with Retry-After", status(429, { "retry-after": "0.01" }), {}],
    ["503", status(503), {}],
    ["a dropped connection", drop, {}],
    ["an answer that breaks off", breakOff, {}],
    ["cut JSON", status(200, { ...PRODUCT, "content-type": "application/json" }, '{"responses": ['), {}],
    ["silence", hang, { timeoutMs: 100 }],
    ["a trickle", trickle, { timeoutMs: 150 }],
  ])("%s may pass and is repeated, once per retry", async (_name, misbehave, options) => {
    const handler: Handler = (request, response, index) => {
      // Without it Elasticsearch's client takes the answer for another product's.
      response.setHeader("x-elastic-product", "Elasticsearch");
      return first(1, misbehave, correct)(request, response, index);
    };
    expect((await use(handler, options).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(server.current.requests).toHaveLength(2);
  });

  test.each<[string, Handler, RegExp]>([
    ["401", status(401, PRODUCT, `no access for ${KEY}`), /status 401: "no access for \*\*\*"/],
    ["404", status(404, PRODUCT, "index_not_found"), /status 404/],
    ["too few answers", json({ responses: [] }), /0 result lists for 1 queries/],
    ["another form", json({ hits: [] }), /responses/],
    [
      "a document without text",
      json({ responses: [found([hit("7", 1, { title: "x" })])] }),
      /field text of document "7"/,
    ],
    [
      "a compressed answer",
      (_request, response) => {
        const bomb = gzipSync(Buffer.alloc(2 ** 24, 32));
        response
          .writeHead(200, { ...PRODUCT, "content-type": "application/json", "content-encoding": "gzip" })
          .end(bomb);
      },
      /compressed/,
    ],
    [
      "more bytes than allowed",
      (request, response, index) => {
        response.setHeader("x-elastic-product", "Elasticsearch");
        return flood(request, response, index);
      },
      /more than maxResponseBytes/,
    ],
  ])("%s cannot pass", async (_name, handler, message) => {
    const error = await use(handler, { maxResponseBytes: 1_000_000 })
      .search(["a"], 1)
      .then(
        () => undefined,
        (reason) => reason,
      );
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringMatching(message) });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
    expect(server.current.requests).toHaveLength(1);
  });

  test("a redirect is not followed with the credentials", async () => {
    await using other = await LoopbackServer.start(correct);
    const search = use(status(307, { ...PRODUCT, location: `${other.origin}/wiki/_msearch` })).search(
      ["a"],
      1,
    );
    await expect(search).rejects.toMatchObject({
      message: expect.stringContaining("redirects are not followed"),
    });
    expect(other.requests).toHaveLength(0);
  });

  test("nobody listens", async () => {
    const retriever = use(correct, { url: "http://127.0.0.1:1", retries: 1 });
    await expect(retriever.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/^Search at \w+ index wiki-\* at .*ECONNREFUSED.*\(2 attempts\)/),
    });
  });

  test("an abort ends the request", async () => {
    const controller = new AbortController();
    const search = use(hang).search(["a"], 1, { signal: controller.signal });
    await expect.poll(() => server.current.inFlight).toBe(1);
    controller.abort();
    await expect(search).rejects.toMatchObject({ code: "ABORTED" });
    await expect.poll(() => server.current.inFlight).toBe(0);
  });

  test.each<[string, object]>([
    ["index", { index: "../_cluster" }],
    ["url", { url: "http://user:canary@127.0.0.1" }],
    ["embedding", { search: { kind: "knn" } }],
    ["indx", { indx: "wiki" }],
  ])("wrong %s is refused", (field, options) => {
    const make = () => use(correct, options as Partial<LuceneOptions>);
    expect(make).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(field) }),
    );
    expect(make).not.toThrow(/canary/);
  });
});

test("Elasticsearch's client refuses a server of another kind", async () => {
  server.current.handler = ({ body }, response) => sendJson(response, { responses: body });
  const retriever = new ElasticsearchRetriever({ url: server.current.origin, index: "wiki" });
  opened.push(retriever);
  await expect(retriever.search(["a"], 1)).rejects.toMatchObject({
    code: "RETRIEVAL_FAILED",
    message: expect.stringContaining("not Elasticsearch"),
  });
  expect(server.current.requests).toHaveLength(1);
});

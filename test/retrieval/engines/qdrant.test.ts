// Contract tests: the engine cannot be installed here. The official client asks a loopback server; requests are compared
// with, and answers built from, the published API reference of Qdrant 1.19, "Query points in batch"
// (api.qdrant.tech/api-reference/search/query-batch-points).
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import {
  QdrantRetriever,
  type QdrantRetrieverOptions,
  restPort,
} from "../../../lib/retrieval/engines/qdrant.js";
import { type Handler, LoopbackServer, loopbackServer, sendJson } from "../../support/loopback-server.js";
import { breakOff, drop, first, flood, hang, status, trickle } from "../../support/misbehaviour.js";

const KEY = "canary-key-5f2c9a";

const point = (id: unknown, payload: object | null = { title: "T", text: "x" }) => ({
  id,
  version: 3,
  score: 0.75,
  payload,
});
const answer = (result: unknown) => ({ usage: null, time: 0.002, status: "ok", result });
const json =
  (value: unknown): Handler =>
  (_request, response) =>
    sendJson(response, value);
const correct: Handler = ({ body }, response) =>
  sendJson(
    response,
    answer(body.searches.map(({ query }: { query: number[] }) => ({ points: [point(query[0])] }))),
  );

/** A query is a number, which becomes the first of its vector. */
const embedding = {
  name: "numbers",
  embed: async (texts: readonly string[]) => texts.map((text) => Float32Array.of(Number(text), 0.5)),
};

const server = loopbackServer(correct);
const opened: QdrantRetriever[] = [];
afterEach(async () => {
  for (const retriever of opened.splice(0)) await retriever.close();
});
function use(handler: Handler = correct, options: Partial<QdrantRetrieverOptions> = {}): QdrantRetriever {
  server.current.handler = handler;
  const fast = { baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 2 };
  const given = { url: server.current.origin, apiKey: KEY, collection: "wiki", embedding };
  const retriever = new QdrantRetriever({ ...given, ...fast, ...options });
  opened.push(retriever);
  return retriever;
}

test("asks as published, and reads the answer", async () => {
  expect(await use().search(["7", "8"], 2)).toEqual(
    ["7", "8"].map((id) => [{ id, title: "T", text: "x", score: 0.75 }]),
  );
  const search = (first: number) => ({ query: [first, 0.5], limit: 2, with_payload: ["title", "text"] });
  expect(server.current.requests).toMatchObject([
    {
      method: "POST",
      path: "/collections/wiki/points/query/batch",
      headers: { "api-key": KEY, "accept-encoding": "identity", "content-type": "application/json" },
      body: { searches: [search(7), search(8)] },
    },
  ]);
});

test("ids of all kinds, named vectors, other payload fields, a path before the interface", async () => {
  const uuid = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
  const points = [point(uuid, { body: "a", doc: 12 }), point(3, { body: "b", doc: "d-3", title: null })];
  const retriever = use(json(answer([{ points }])), {
    url: `${server.current.origin}/qdrant/`,
    collection: "my wiki",
    vector: "dense",
    fields: { id: "doc", text: "body" },
  });
  expect(await retriever.search(["1"], 5)).toEqual([
    [
      { id: "12", title: "", text: "a", score: 0.75 },
      { id: "d-3", title: "", text: "b", score: 0.75 },
    ],
  ]);
  expect(server.current.requests[0]).toMatchObject({
    path: "/qdrant/collections/my%20wiki/points/query/batch",
    body: { searches: [{ using: "dense", with_payload: ["title", "body", "doc"] }] },
  });
  const [list] = await use(json(answer([{ points: [point(uuid)] }]))).search(["1"], 1);
  expect(list?.[0]?.id).toBe(uuid);
});

test.each<[string, Handler, Partial<QdrantRetrieverOptions>]>([
  ["429 with Retry-After", status(429, { "retry-after": "0.01" }, "busy"), {}],
  ["503", status(503), {}],
  ["a dropped connection", drop, {}],
  ["an answer that breaks off", breakOff, {}],
  ["a page of a proxy", status(200, { "content-type": "text/html" }, "<html>maintenance</html>"), {}],
  ["silence", hang, { timeoutMs: 100 }],
  ["a trickle", trickle, { timeoutMs: 150 }],
])("%s may pass and is repeated", async (_name, misbehave, options) => {
  expect((await use(first(1, misbehave, correct), options).search(["7"], 1))[0]?.[0]?.id).toBe("7");
  expect(server.current.requests).toHaveLength(2);
});

test.each<[string, Handler, RegExp]>([
  ["403", status(403, {}, `wrong key ${KEY}`), /status 403: .*wrong key \*\*\*/],
  [
    "404",
    (_request, response) => sendJson(response, { status: { error: "Not found: Collection `wiki`" } }, 404),
    /Collection `wiki`/,
  ],
  ["too few answers", json(answer([])), /0 result lists for 1 queries/],
  ["another form", json({ points: [] }), /result/],
  ["a point without text", json(answer([{ points: [point(7, null)] }])), /payload field text of point 7/],
  [
    "a compressed answer",
    (_request, response) => {
      const bomb = gzipSync(Buffer.alloc(2 ** 24, 32));
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
    },
    /compressed \(gzip\)/,
  ],
  ["more bytes than allowed", flood, /more than maxResponseBytes/],
])("%s cannot pass", async (_name, handler, message) => {
  const error = await use(handler, { maxResponseBytes: 1_000_000 })
    .search(["7"], 1)
    .then(
      () => undefined,
      (reason) => reason,
    );
  expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringMatching(message) });
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
  expect(server.current.requests).toHaveLength(1);
});

test("a redirect is not followed with the key", async () => {
  await using other = await LoopbackServer.start(correct);
  const search = use(status(307, { location: `${other.origin}/collections/wiki` })).search(["7"], 1);
  await expect(search).rejects.toMatchObject({
    message: expect.stringContaining("redirects are not followed"),
  });
  expect(other.requests).toHaveLength(0);
});

test("nobody listens", async () => {
  const retriever = use(correct, { retries: 1 });
  await server.current[Symbol.asyncDispose]();
  await expect(retriever.search(["7"], 1)).rejects.toMatchObject({
    code: "RETRIEVAL_FAILED",
    message: expect.stringMatching(/^Search at Qdrant collection wiki at .*ECONNREFUSED.*\(2 attempts\)/),
  });
});

test.each([
  ["http://localhost", 6333],
  ["https://x.cloud/prefix:1", 6333],
  ["https://x.cloud:443", 443],
  ["http://[::1]:80/", 80],
  ["http://[::1]", 6333],
])("the port of %s is %d", (url, port) => expect(restPort(url)).toBe(port));

test("an abort ends the request", async () => {
  const controller = new AbortController();
  const search = use(hang).search(["7"], 1, { signal: controller.signal });
  await expect.poll(() => server.current.inFlight).toBe(1);
  controller.abort();
  await expect(search).rejects.toMatchObject({ code: "ABORTED" });
  await expect.poll(() => server.current.inFlight).toBe(0);
});

test.each<[string, object]>([
  ["collection", { collection: "a/../b" }],
  ["embedding", { embedding: {} }],
  ["url", { url: "ftp://127.0.0.1" }],
])("wrong %s is refused", (field, options) => {
  expect(() => use(correct, options as Partial<QdrantRetrieverOptions>)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(field) }),
  );
});

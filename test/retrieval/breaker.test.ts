import { expect, onTestFinished, test } from "vitest";
import { WebSearch } from "../../examples/web-search.js";
import { sleep } from "../../lib/abort.js";
import type { BreakerStats } from "../../lib/network/breaker.js";
import { AttemptError } from "../../lib/network/retry.js";
import { HttpEmbedding } from "../../lib/retrieval/embedding/http.js";
import { QdrantRetriever } from "../../lib/retrieval/engines/qdrant.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { type QueryOutcome, RemoteRetriever } from "../../lib/retrieval/remote.js";
import { RerankedRetriever } from "../../lib/retrieval/reranked.js";
import { type Handler, loopbackServer, sendJson } from "../support/loopback-server.js";
import { hang, slow, status } from "../support/misbehaviour.js";

interface Client {
  ask(query: string): Promise<unknown>;
  stats(): { retries: number; failures: number; breaker: BreakerStats };
  close(): Promise<void>;
}

const FAST = { baseDelayMs: 1, maxDelayMs: 2, retries: 1, breakerFailures: 3, breakerOpenMs: 400 };
const one = { id: "1", title: "T", text: "x" };
type Searches = HttpRetriever | WebSearch | QdrantRetriever | RerankedRetriever;
const searcher = (retriever: Searches): Client => ({
  ask: (query) => retriever.search([query], 1),
  stats: () => retriever.stats(),
  close: () => retriever.close(),
});
const correct: Handler = ({ path, body }, response) => {
  if (path.startsWith("/retrieve")) {
    const found = [{ document: { id: "1", contents: '"T"\nx' }, score: 1 }];
    return sendJson(response, { result: body.queries.map(() => found) });
  }
  if (path.startsWith("/search"))
    return sendJson(response, { results: [{ url: "1", title: "T", content: "x" }] });
  if (path.startsWith("/embed"))
    return sendJson(
      response,
      body.inputs.map(() => [1, 2]),
    );
  if (path.startsWith("/rerank")) return sendJson(response, [{ index: 0, score: 1 }]);
  const points = [{ id: 1, score: 1, payload: { title: "T", text: "x" } }];
  sendJson(response, { result: body.searches.map(() => ({ points })), status: "ok", time: 0 });
};
const server = loopbackServer(correct);

/** Every kind of client that asks a server, made for the running test's server. */
const CLIENTS: Record<string, (options?: object) => Client> = {
  HttpRetriever: (options) =>
    searcher(new HttpRetriever({ url: `${server.current.origin}/retrieve`, ...FAST, ...options })),
  QdrantRetriever: (options) => {
    const embed = async (texts: readonly string[]) => texts.map(() => Float32Array.of(1));
    const where = { url: server.current.origin, collection: "c", embedding: { name: "m", embed } };
    return searcher(new QdrantRetriever({ ...where, ...FAST, ...options }));
  },
  "an engine of one's own": (options) =>
    searcher(new WebSearch(server.current.origin, { ...FAST, ...options })),
  HttpEmbedding: (options) => {
    const url = `${server.current.origin}/embed`;
    const client = new HttpEmbedding({ url, model: "m", ...FAST, ...options });
    return {
      ask: (text) => client.embed([text], "query"),
      stats: () => client.stats(),
      close: () => client.close(),
    };
  },
  RerankedRetriever: (options) => {
    const url = `${server.current.origin}/rerank`;
    return searcher(new RerankedRetriever({ search: async () => [[one]] }, { url, ...FAST, ...options }));
  },
};

function use(name: string, handler: Handler, options = {}): Client {
  server.current.handler = handler;
  const client = (CLIENTS[name] as (options: object) => Client)(options);
  onTestFinished(() => client.close());
  return client;
}

test.each(Object.keys(CLIENTS))("%s stops asking a server that is gone, and finds it again", async (name) => {
  const client = use(name, status(503));
  for (let i = 0; i < 3; i++) {
    await expect(client.ask(`q${i}`)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      retryable: true,
      message: expect.stringContaining("503"),
    });
  }
  const sent = server.current.requests.length;
  expect(sent).toBe(6);
  await expect(client.ask("next")).rejects.toMatchObject({
    code: "RETRIEVAL_FAILED",
    retryable: true,
    retryAfterMs: expect.any(Number),
    message: expect.stringMatching(
      /nothing is sent since \d{4}-.*Z, when 3 requests in a row had failed; .*status 503.*; the next try is at \d{4}-/,
    ),
  });
  expect(server.current.requests.length).toBe(sent);
  expect(client.stats()).toMatchObject({ failures: 4, breaker: { state: "open", opened: 1, refused: 1 } });

  // Still gone: one request, without retries.
  await sleep(410, undefined);
  await expect(client.ask("next")).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
  expect(server.current.requests.length).toBe(sent + 1);

  // Back: one tries, the others wait for it and are answered too.
  server.current.handler = slow(20, correct);
  await sleep(410, undefined);
  await Promise.all(["a", "b", "c"].map((query) => client.ask(query)));
  expect(client.stats().breaker).toMatchObject({ state: "closed", opened: 1 });
});

test.each(Object.keys(CLIENTS))("%s goes on asking a server that refuses requests", async (name) => {
  const client = use(name, status(403));
  for (let i = 0; i < 5; i++) {
    await expect(client.ask(`q${i}`)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED", retryable: false });
  }
  expect(server.current.requests.length).toBe(5);
  expect(client.stats().breaker).toEqual({ state: "closed", opened: 0, refused: 0 });
});

test.each<[string, Handler, object]>([
  ["429 behind its retries", status(429, { "retry-after": "0.001" }), {}],
  ["a wait that is too long", status(429, { "retry-after": "900" }), { maxRetryAfterMs: 1000 }],
  ["silence", hang, { timeoutMs: 30 }],
  ["dropped connections", (_request, response) => void response.socket?.destroy(), {}],
])("%s opens it", async (_name, handler, options) => {
  const client = use("HttpRetriever", handler, options);
  for (let i = 0; i < 3; i++) await expect(client.ask(`q${i}`)).rejects.toMatchObject({ retryable: true });
  expect(client.stats().breaker.state).toBe("open");
});

test("a batch that is refused is still halved, and counts as an answer", async () => {
  const picky: Handler = (request, response, index) =>
    request.body.queries.includes("bad")
      ? status(400)(request, response, index)
      : correct(request, response, index);
  const client = new HttpRetriever({ url: `${server.current.origin}/retrieve`, ...FAST });
  onTestFinished(() => client.close());
  server.current.handler = picky;
  for (let i = 0; i < 4; i++) {
    await expect(client.search(["good", "bad"], 1)).rejects.toMatchObject({ retryable: false });
  }
  expect(client.stats().breaker.state).toBe("closed");
});

test("an embedding model that is gone is its own outage, not the engine's, and may pass for whoever searches", async () => {
  server.current.handler = (request, response, index) =>
    (request.path.startsWith("/embed") ? status(503) : correct)(request, response, index);
  const embedding = new HttpEmbedding({ url: `${server.current.origin}/embed`, model: "m", ...FAST });
  const where = { url: server.current.origin, collection: "c", embedding };
  const engine = new QdrantRetriever({ ...where, ...FAST });
  onTestFinished(async () => {
    await Promise.all([engine.close(), embedding.close()]);
  });
  for (let i = 0; i < 4; i++) {
    await expect(engine.search([`q${i}`], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      retryable: true,
      message: expect.stringMatching(/^Embedding at .*\/embed failed/),
    });
  }
  expect(embedding.stats().breaker).toEqual({ state: "open", opened: 1, refused: 1 });
  expect(engine.stats().breaker).toEqual({ state: "closed", opened: 0, refused: 0 });
  await expect(engine.search(["q"], 1)).rejects.toMatchObject({ retryAfterMs: expect.any(Number) });
});

test("an engine that answers some of the queries is there", async () => {
  class Partly extends RemoteRetriever {
    constructor() {
      super("half a cluster", { ...FAST, breakerFailures: 1 });
    }
    protected override async ask(queries: readonly string[]): Promise<QueryOutcome[]> {
      const failed = new AttemptError("shard 3 is missing", { retryable: true });
      return queries.map((query) => (query === "bad" ? failed : [one]));
    }
    protected override async disconnect() {}
  }
  const engine = new Partly();
  const search = engine.search(["good", "bad"], 1);
  await expect(search).rejects.toMatchObject({
    retryable: true,
    message: expect.stringContaining("shard 3"),
  });
  expect(engine.stats().breaker.state).toBe("closed");
  await expect(engine.search(["bad"], 1)).rejects.toMatchObject({ retryable: true });
  expect(engine.stats().breaker.state).toBe("open");
});

test.each([{ breakerFailures: 0 }, { breakerOpenMs: -1 }, { breakerFailures: 1.5 }])(
  "%j is refused",
  (options) => {
    for (const make of Object.values(CLIENTS)) {
      expect(() => make(options)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    }
  },
);

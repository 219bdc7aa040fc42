import { execFile } from "node:child_process";
import { request } from "node:http";
import { connect } from "node:net";
import { promisify } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { HindsearchError } from "../../lib/errors.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import {
  type RetrieverServer,
  type ServeOptions,
  serveRetriever,
} from "../../lib/retrieval/server/server.js";

vi.setConfig({ testTimeout: 10_000 });

const corpus: Passage[] = [
  { id: "1", title: "Paris", text: "the capital of France" },
  { id: "2", title: "Rome", text: "the capital of Italy\nand more" },
  { id: "3", title: "", text: "untitled France" },
];
const memory = await MemoryRetriever.create(corpus);

let server: RetrieverServer;
afterEach(() => server?.close());

async function serve(retriever: Retriever = memory, options: ServeOptions = {}): Promise<RetrieverServer> {
  server = await serveRetriever(retriever, { port: 0, ...options });
  return server;
}

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it freely
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
}

/** A retriever whose searches wait until they are let go or aborted. */
function gate() {
  const waiting = new Set<() => void>();
  const aborted: string[] = [];
  const retriever: Retriever = {
    search: (queries, _topK, { signal } = {}) =>
      new Promise((done, failed) => {
        waiting.add(() => done(queries.map(() => [])));
        signal?.addEventListener("abort", () => {
          aborted.push(queries.join());
          failed(new HindsearchError("ABORTED", "aborted"));
        });
      }),
  };
  const open = () => {
    for (const done of waiting) done();
    waiting.clear();
  };
  return { retriever, waiting, aborted, open };
}

describe("POST /retrieve", () => {
  test("with scores: documents and scores, in the order of the queries", async () => {
    await serve();
    const { status, body } = await post("/retrieve", {
      queries: ["Italy", "France", "nothing"],
      topk: 1,
      return_scores: true,
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      result: [
        [
          {
            document: { id: "2", contents: '"Rome"\nthe capital of Italy\nand more' },
            score: expect.any(Number),
          },
        ],
        [{ document: { id: "3", contents: '""\nuntitled France' }, score: expect.any(Number) }],
        [],
      ],
    });
  });

  test.each([1, 2, 3])("without scores: bare documents, for %d queries", async (n) => {
    await serve();
    const { body } = await post("/retrieve", { queries: Array(n).fill("Italy"), topk: 1, unknown: 7 });
    expect(body).toEqual({
      result: Array(n).fill([{ id: "2", contents: '"Rome"\nthe capital of Italy\nand more' }]),
    });
  });

  test.each([{}, { topk: 0 }, { topk: null }])("topk %j means the default", async (fields) => {
    await serve(memory, { defaultTopK: 2 });
    const { body } = await post("/retrieve", { queries: ["the capital France"], ...fields });
    expect(body.result[0]).toHaveLength(2);
  });

  test("our client reads what a retriever finds", async () => {
    await serve();
    const client = new HttpRetriever({ url: `${server.url}/retrieve` });
    const queries = ["capital France", "Italy", "", "nothing"];
    expect(await client.search(queries, 3)).toEqual(await memory.search(queries, 3));
    await client.close();
  });

  test("a Python client", async () => {
    await serve();
    const program = `
import json, sys, urllib.request
body = json.dumps({"queries": ["Italy", "café"], "topk": 2, "return_scores": True}).encode()
request = urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json"})
with urllib.request.urlopen(request, timeout=5) as response:
    for hits in json.load(response)["result"]:
        for i, hit in enumerate(hits):
            content = hit["document"]["contents"]
            print(i, content.split("\\n")[0], "|".join(content.split("\\n")[1:]))`;
    const { stdout } = await promisify(execFile)("python3", ["-c", program, `${server.url}/retrieve`]);
    expect(stdout).toBe('0 "Rome" the capital of Italy|and more\n');
  });
});

describe("FlashRAG's contract", () => {
  test("one query", async () => {
    await serve();
    const rome = { id: "2", contents: '"Rome"\nthe capital of Italy\nand more' };
    expect((await post("/search", { query: "Italy" })).body).toEqual([rome]);
    expect((await post("/search", { query: "Italy", top_n: 3, return_score: true })).body).toEqual([
      [rome],
      [expect.any(Number)],
    ]);
    expect(await post("/search", { query: " " })).toMatchObject({ status: 400 });
  });

  test("a batch: scores are a second list", async () => {
    await serve();
    const { body } = await post("/batch_search", { query: ["Italy", "x"], top_n: 1, return_score: true });
    expect(body).toEqual([
      [[{ id: "2", contents: expect.any(String) }], []],
      [[expect.any(Number)], []],
    ]);
    expect((await post("/batch_search", { query: ["x", "Italy"] })).body).toEqual([
      [],
      [{ id: "2", contents: expect.any(String) }],
    ]);
  });

  test("our client reads what a retriever finds", async () => {
    await serve();
    const client = new HttpRetriever({ url: `${server.url}/batch_search`, dialect: "flashrag" });
    const queries = ["capital France", "", "Italy"];
    expect(await client.search(queries, 2)).toEqual(await memory.search(queries, 2));
    await client.close();
  });

  test.each([
    ["no scores", [[{ id: "1", contents: "x" }]]],
    ["too few score lists", [[[{ id: "1", contents: "x" }]], []]],
    [
      "too many lists",
      [
        [[], []],
        [[], []],
      ],
    ],
  ])("the client refuses an answer with %s", async (_name, answer) => {
    const { LoopbackServer, sendJson } = await import("../support/loopback-server.js");
    await using service = await LoopbackServer.start((_request, response) => sendJson(response, answer));
    const client = new HttpRetriever({ url: `${service.origin}/batch_search`, dialect: "flashrag" });
    await expect(client.search(["a"], 1)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    expect(service.requests[0]?.body).toEqual({ query: ["a"], top_n: 1, return_score: true });
    await client.close();
  });

  test("GET /health", async () => {
    await serve(memory, { concurrency: 3 });
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({
      status: "healthy",
      retrievers: { total: 3, available: 3 },
    });
  });
});

describe("what is refused", () => {
  test.each<[string, number, string, unknown, Record<string, string>]>([
    ["an unknown path", 404, "/", { queries: [] }, {}],
    ["cut JSON", 422, "/retrieve", '{"queries": ["a', {}],
    ["another form", 422, "/retrieve", { queries: "a" }, {}],
    ["a query that is no text", 422, "/retrieve", { queries: ["a", 1] }, {}],
    ["a negative topk", 422, "/retrieve", { queries: ["a"], topk: -1 }, {}],
    ["too many passages", 422, "/retrieve", { queries: ["a"], topk: 101 }, {}],
    ["too many queries", 413, "/retrieve", { queries: Array(513).fill("a") }, {}],
    ["a body that is too long", 413, "/retrieve", { queries: ["a".repeat(2 ** 20)] }, {}],
    ["a form of a browser", 415, "/retrieve", { queries: ["a"] }, { "content-type": "text/plain" }],
    ["a compressed body", 415, "/retrieve", { queries: ["a"] }, { "content-encoding": "gzip" }],
  ])("%s: %d", async (_name, status, path, body, headers) => {
    await serve();
    expect(await post(path, body, headers)).toMatchObject({ status, body: { detail: expect.any(String) } });
    expect(server.stats()).toMatchObject({ served: 0, refused: 1 });
    expect((await post("/retrieve", { queries: ["Italy"] })).status).toBe(200);
  });

  test("GET", async () => {
    await serve();
    const response = await fetch(`${server.url}/retrieve`);
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test("a body of unknown length that is too long", async () => {
    await serve(memory, { maxBodyBytes: 1000 });
    const { hostname, port } = new URL(server.url);
    const status = await new Promise((done) => {
      const headers = { "content-type": "application/json" };
      const sent = request({ hostname, port, path: "/retrieve", method: "POST", headers }, (response) => {
        response.resume();
        done(response.statusCode);
      });
      sent.on("error", () => {});
      sent.write(`"${"x".repeat(5000)}`);
    });
    expect(status).toBe(413);
  });

  test("another host's name, as in DNS rebinding", async () => {
    await serve();
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.write("GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    let answer = "";
    for await (const chunk of socket) answer += chunk;
    expect(answer).toMatch(/^HTTP\/1.1 403 /);
  });
});

describe("access", () => {
  test.each(["0.0.0.0", "::", "192.168.0.1", "example.org"])("%s needs a token", async (host) => {
    await expect(serveRetriever(memory, { host, port: 0 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("HINDSEARCH_SERVER_TOKEN"),
    });
  });

  test("only those who know the token are served, on any address", async () => {
    await serve(memory, { host: "0.0.0.0", token: "secret-token" });
    const ask = (headers: Record<string, string>) => post("/retrieve", { queries: ["Italy"] }, headers);
    expect(await ask({})).toMatchObject({ status: 401 });
    expect(await ask({ authorization: "Bearer secret-tokem" })).toMatchObject({ status: 401 });
    expect(await ask({ authorization: "Bearer secret-token" })).toMatchObject({ status: 200 });
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  test("a taken port is IO, unknown options are INVALID_ARGUMENT", async () => {
    await serve();
    const port = Number(new URL(server.url).port);
    await expect(serveRetriever(memory, { port })).rejects.toMatchObject({ code: "IO" });
    await expect(serveRetriever(memory, { prot: 1 } as ServeOptions)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("load", () => {
  test("what does not fit into the queue is told to come back, and nothing is lost", async () => {
    const { retriever, waiting, open } = gate();
    await serve(retriever, { concurrency: 2, maxQueue: 3 });
    const asked = Array.from({ length: 8 }, (_, i) => post("/retrieve", { queries: [`q${i}`] }));
    await expect.poll(() => server.stats().overloaded).toBe(3);
    expect(waiting.size).toBe(2);
    const timer = setInterval(open, 5);
    const answers = await Promise.all(asked);
    clearInterval(timer);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 503, 503, 503]);
    const refused = answers.find(({ status }) => status === 503);
    expect(refused?.headers.get("retry-after")).toBe("1");
    expect(server.stats()).toMatchObject({ served: 5, overloaded: 3, latency: { count: 5 } });
  });

  test("our client gets through an overloaded server", async () => {
    let most = 0;
    let now = 0;
    const slow: Retriever = {
      async search(queries) {
        most = Math.max(most, ++now);
        await new Promise((done) => setTimeout(done, 10));
        now--;
        return queries.map((query) => [{ id: query, title: "", text: "" }]);
      },
    };
    await serve(slow, { concurrency: 2, maxQueue: 2 });
    const client = new HttpRetriever({
      url: `${server.url}/retrieve`,
      batchSize: 1,
      concurrency: 16,
      baseDelayMs: 20,
    });
    const queries = Array.from({ length: 16 }, (_, i) => `q${i}`);
    const lists = await client.search(queries, 1);
    expect(lists.map(([first]) => first?.id)).toEqual(queries);
    expect(most).toBe(2);
    await client.close();
  });

  test("a client that hangs up takes its search with it, waiting or at work", async () => {
    const { retriever, waiting, aborted } = gate();
    await serve(retriever, { concurrency: 1 });
    const controllers = [new AbortController(), new AbortController()];
    const asked = controllers.map(({ signal }, i) =>
      fetch(`${server.url}/retrieve`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ queries: [`q${i}`] }),
        signal,
      }).catch(() => "gone"),
    );
    await expect.poll(() => waiting.size).toBe(1);
    for (const controller of controllers) controller.abort();
    expect(await Promise.all(asked)).toEqual(["gone", "gone"]);
    await expect.poll(() => aborted).toHaveLength(1);
    await expect
      .poll(
        async () =>
          ((await (await fetch(`${server.url}/health`)).json()) as { retrievers: { available: number } })
            .retrievers.available,
      )
      .toBe(1);
    expect(server.stats()).toMatchObject({ served: 0, failed: 0 });
  });
});

describe("failures of the retriever", () => {
  test("are 502, reported to the server's owner alone", async () => {
    const failure = new HindsearchError("RETRIEVAL_FAILED", "Search at http://inner:9200 failed.");
    const errors: unknown[] = [];
    await serve({ search: () => Promise.reject(failure) }, { onError: (error) => errors.push(error) });
    const { status, body } = await post("/retrieve", { queries: ["a"] });
    expect([status, body]).toEqual([502, { detail: "the search failed" }]);
    expect(errors).toEqual([failure]);
    expect(server.stats()).toMatchObject({ failed: 1, served: 0 });
  });

  test("too few lists are a failure, not an empty result", async () => {
    await serve({ search: async () => [[]] });
    expect((await post("/retrieve", { queries: ["a", "b"] })).status).toBe(502);
  });

  test("a search that takes too long is 504 and is aborted", async () => {
    const { retriever, aborted } = gate();
    await serve(retriever, { timeoutMs: 50 });
    expect((await post("/retrieve", { queries: ["a"] })).status).toBe(504);
    expect(aborted).toEqual(["a"]);
  });
});

describe("closing", () => {
  test("waits for the requests at work, takes no new ones, and frees the port", async () => {
    const { retriever, waiting, open } = gate();
    await serve(retriever);
    const { url } = server;
    const running = post("/retrieve", { queries: ["a"] });
    await expect.poll(() => waiting.size).toBe(1);
    const closing = server.close();
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    open();
    expect((await running).status).toBe(200);
    await closing;
    await server.close();
    await serveRetriever(memory, { port: Number(new URL(url).port) }).then((again) => again.close());
  });

  test("ends what outlasts the grace, also by the signal", async () => {
    const { retriever, waiting, aborted } = gate();
    const controller = new AbortController();
    await serve(retriever, { graceMs: 30, signal: controller.signal });
    const running = post("/retrieve", { queries: ["a"] });
    await expect.poll(() => waiting.size).toBe(1);
    controller.abort();
    expect((await running).status).toBe(503);
    await server.close();
    expect(aborted).toEqual(["a"]);
  });
});

import type { ServerResponse } from "node:http";
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HttpRetriever, type HttpRetrieverOptions } from "../../lib/retrieval/http.js";
import { type Handler, LoopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";

const KEY = "canary-key-5f2c9a";
const FAST = { baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 2 } as const;

let server: LoopbackServer;
let retriever: HttpRetriever;
beforeEach(async () => {
  server = await LoopbackServer.start(correct);
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await retriever?.close();
});

function use(handler: Handler, options: Partial<HttpRetrieverOptions> = {}): HttpRetriever {
  server.handler = handler;
  retriever = new HttpRetriever({ url: `${server.origin}/retrieve`, apiKey: KEY, ...FAST, ...options });
  return retriever;
}

const hit = (id: string, text: string, score = 1) => ({
  document: { id, contents: `"T ${id}"\n${text}` },
  score,
});
const answer = ({ body }: ReceivedRequest) => ({
  result: body.queries.map((query: string) =>
    [hit(`id-${query}`, query, 2), hit("other", "x", 1)].slice(0, body.topk),
  ),
});
const correct: Handler = (request, response) => sendJson(response, answer(request));
/** Misbehaves for the first requests, then answers. */
const first =
  (times: number, misbehave: Handler): Handler =>
  (request, response, index) =>
    (index < times ? misbehave : correct)(request, response, index);
const status =
  (code: number, headers = {}, body = ""): Handler =>
  (_request, response) =>
    void response.writeHead(code, headers).end(body);
/** Misbehaves on the response alone. */
const raw =
  (act: (response: ServerResponse) => unknown): Handler =>
  (_request, response) =>
    void act(response);

vi.setConfig({ testTimeout: 10_000 });

describe("the protocol", () => {
  test("asks as the reference server needs it and reads its answer", async () => {
    const found = await use(correct).search(["a", "b"], 2);
    expect(found).toEqual([
      [
        { id: "id-a", title: "T id-a", text: "a", score: 2 },
        { id: "other", title: "T other", text: "x", score: 1 },
      ],
      [
        { id: "id-b", title: "T id-b", text: "b", score: 2 },
        { id: "other", title: "T other", text: "x", score: 1 },
      ],
    ]);
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({
      method: "POST",
      path: "/retrieve",
      body: { queries: ["a", "b"], topk: 2, return_scores: true },
      headers: {
        authorization: `Bearer ${KEY}`,
        "content-type": "application/json",
        "accept-encoding": "identity",
      },
    });
  });

  test("takes documents as strings, numbers as ids, and neither score nor id", async () => {
    const result = [
      [
        { document: '"S"\nstring', score: null },
        { document: { id: 7, contents: "no title" }, extra: 1 },
        { document: { contents: '"W"\nweb' } },
      ],
    ];
    const [list] = await use((_request, response) => sendJson(response, { result, time: 3 })).search(
      ["q"],
      5,
    );
    expect(list).toEqual([
      { id: expect.stringMatching(/^sha256-[0-9a-f]{16}$/), title: "S", text: "string" },
      { id: "7", title: "", text: "no title" },
      { id: expect.stringMatching(/^sha256-[0-9a-f]{16}$/), title: "W", text: "web" },
    ]);
    expect(list?.[0]?.id).not.toBe(list?.[2]?.id);
  });

  test("cuts more hits than asked for, takes fewer and none", async () => {
    const result = [[hit("1", "x"), hit("2", "x"), hit("3", "x")], [hit("4", "x")], []];
    const lists = await use((_request, response) => sendJson(response, { result })).search(
      ["a", "b", "c"],
      2,
    );
    expect(lists.map((list) => list.map(({ id }) => id))).toEqual([["1", "2"], ["4"], []]);
  });

  test("queries without a visible character are not sent", async () => {
    expect(await use(correct).search(["", " \n"], 3)).toEqual([[], []]);
    expect(server.requests).toHaveLength(0);
    const lists = await retriever.search(["", "a", " ", "b"], 1);
    expect(lists.map((list) => list.map(({ id }) => id))).toEqual([[], ["id-a"], [], ["id-b"]]);
  });

  test("long queries are cut on a character boundary", async () => {
    await use(correct, { maxQueryLength: 8 }).search(
      ["abcdefg🎬 and more", "12345678", "東京".repeat(100)],
      1,
    );
    expect(server.requests[0]?.body.queries).toEqual(["abcdefg", "12345678", "東京東京東京東京"]);
  });

  test("a large but allowed answer comes whole, over many packets", async () => {
    const text = "é".repeat(1_000_000);
    const [list] = await use((_request, response) =>
      sendJson(response, { result: [[hit("1", text)]] }),
    ).search(["q"], 1);
    expect(list?.[0]?.text).toBe(text);
  });
});

describe("what may pass is repeated", () => {
  test.each([408, 409, 429, 500, 502, 503, 504])("status %d", async (code) => {
    expect((await use(first(2, status(code))).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(server.requests).toHaveLength(3);
    expect(retriever.stats()).toMatchObject({ requests: 1, retries: 2, failures: 0 });
  });

  test.each<[string, Handler]>([
    ["a dropped connection", raw((response) => response.socket?.destroy())],
    [
      "an answer that breaks off",
      raw((response) => {
        response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
        response.write('{"result": [[');
        setTimeout(() => response.socket?.destroy(), 5);
      }),
    ],
    [
      "a chunked answer that breaks off",
      raw((response) => {
        response.writeHead(200, { "content-type": "application/json" });
        response.write('{"result": [[');
        setTimeout(() => response.socket?.destroy(), 5);
      }),
    ],
    ["no HTTP at all", raw((response) => response.socket?.end("SSH-2.0-OpenSSH\r\n"))],
    [
      "an HTML page with status 200",
      status(200, { "content-type": "text/html" }, "<html>maintenance</html>"),
    ],
    ["cut JSON", status(200, { "content-type": "application/json" }, '{"result": [[{"docum')],
    ["an empty body", status(200)],
    ["bytes that are no UTF-8", raw((response) => response.end(Buffer.from([0x22, 0xff, 0x22])))],
  ])("%s", async (_name, misbehave) => {
    expect((await use(first(1, misbehave)).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(server.requests).toHaveLength(2);
  });

  test("a server that never answers, after the time-out", async () => {
    const search = use(
      first(1, () => {}),
      { timeoutMs: 100 },
    ).search(["a"], 1);
    expect((await search)[0]?.[0]?.id).toBe("id-a");
    expect(server.gaps[0]).toBeGreaterThanOrEqual(95);
  });

  test("a body that trickles for ever, after the time-out", async () => {
    const trickle = raw((response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 10);
      response.once("close", () => clearInterval(timer));
    });
    expect((await use(first(1, trickle), { timeoutMs: 150 }).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
  });

  test("Retry-After is waited", async () => {
    await use(first(1, status(429, { "retry-after": "0.2" }))).search(["a"], 1);
    expect(server.gaps[0]).toBeGreaterThanOrEqual(199);
  });

  test("until the retries are used up", async () => {
    const search = use(status(503, {}, "overloaded"), { retries: 2 });
    await expect(search.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: `Search at ${server.origin}/retrieve failed: status 503: "overloaded" (3 attempts).`,
    });
    expect(server.requests).toHaveLength(3);
    expect(retriever.stats()).toMatchObject({ requests: 1, retries: 2, failures: 1 });
  });

  test("nobody listens", async () => {
    const gone = use(correct, { retries: 1 });
    await server[Symbol.asyncDispose]();
    await expect(gone.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/connection failed: .*ECONNREFUSED.*\(2 attempts\)/),
    });
    server = await LoopbackServer.start(correct);
  });
});

describe("what cannot pass is not repeated", () => {
  test.each([401, 403, 404, 405, 410])("status %d", async (code) => {
    await expect(use(status(code)).search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining(`status ${code}`),
    });
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    ["null", null, "the answer:"],
    ["an error object", { error: "index not loaded" }, "result:"],
    ["hits without a document", { result: [[{ id: "1", contents: "x" }]] }, "result.0.0.document"],
    [
      "a document without contents",
      { result: [[{ document: { id: "1" }, score: 1 }]] },
      "result.0.0.document",
    ],
    ["a score in words", { result: [[{ document: "x", score: "high" }]] }, "result.0.0.score"],
    ["too few lists", { result: [] }, "0 result lists for 1 queries"],
    ["too many lists", { result: [[], []] }, "2 result lists for 1 queries"],
  ])("%s", async (_name, value, where) => {
    await expect(
      use((_request, response) => sendJson(response, value)).search(["a"], 1),
    ).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining(where),
    });
    expect(server.requests).toHaveLength(1);
  });

  test("a redirect, also to another server", async () => {
    await using other = await LoopbackServer.start(correct);
    const search = use(status(307, { location: `${other.origin}/retrieve?token=secret` })).search(["a"], 1);
    await expect(search).rejects.toMatchObject({
      message: expect.stringContaining(`redirects to ${other.origin}, and redirects are not followed`),
    });
    expect(other.requests).toHaveLength(0);
  });

  test("more bytes than allowed", async () => {
    let sent = 0;
    const flood = raw((response) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 32))) sent += 65_536;
      };
      response.on("drain", more);
      more();
    });
    const search = use(flood, { maxResponseBytes: 1_000_000 }).search(["a"], 1);
    await expect(search).rejects.toMatchObject({
      message: expect.stringContaining("more than maxResponseBytes (1000000)"),
    });
    expect(sent).toBeLessThan(50_000_000);
    expect(server.requests).toHaveLength(1);
  });

  test("a decompression bomb", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, 32));
    const search = use((_request, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
    }).search(["a"], 1);
    await expect(search).rejects.toMatchObject({ message: expect.stringContaining('compressed ("gzip")') });
  });

  test("a wait longer than allowed", async () => {
    const search = use(status(429, { "retry-after": "900" }), { maxRetryAfterMs: 600_000 }).search(["a"], 1);
    await expect(search).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("asks to wait 900 s, longer than maxRetryAfterMs (600 s)"),
    });
  });
});

describe("batches", () => {
  test("concurrent searches share requests, each query once", async () => {
    use(correct);
    const queries = Array.from({ length: 100 }, (_, i) => `q${i % 40}`);
    const lists = await Promise.all(queries.map((query) => retriever.search([query], 1)));
    expect(lists.map(([list]) => list?.[0]?.id)).toEqual(queries.map((query) => `id-${query}`));
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.body.queries).toHaveLength(40);
    expect(retriever.stats()).toMatchObject({ queries: 100, sent: 40, requests: 1 });
  });

  test("repeated queries in one search keep their places and their own lists", async () => {
    const lists = await use(correct).search(["a", "b", "a"], 1);
    expect(lists.map((list) => list[0]?.id)).toEqual(["id-a", "id-b", "id-a"]);
    expect(lists[0]).not.toBe(lists[2]);
    expect(server.requests[0]?.body.queries).toEqual(["a", "b"]);
  });

  test("are cut at their size and separate by topK", async () => {
    use(correct, { batchSize: 10 });
    const many = retriever.search(
      Array.from({ length: 25 }, (_, i) => `q${i}`),
      2,
    );
    const other = retriever.search(["q0"], 1);
    expect((await many).map((list) => list[0]?.id)).toEqual(Array.from({ length: 25 }, (_, i) => `id-q${i}`));
    expect((await other)[0]).toHaveLength(1);
    const sizes = server.requests.map(({ body }) => `${body.queries.length}@${body.topk}`);
    expect(sizes.sort()).toEqual(["10@2", "10@2", "1@1", "5@2"]);
  });

  test("no more requests at a time than allowed; waiting searches fill the next batch", async () => {
    const slow: Handler = (request, response) =>
      void setTimeout(() => sendJson(response, answer(request)), 30);
    use(slow, { concurrency: 2, batchSize: 16 });
    const searches: Promise<unknown>[] = [];
    for (let i = 0; i < 64; i++) {
      searches.push(retriever.search([`q${i}`], 1));
      await new Promise((done) => setTimeout(done, 2));
    }
    await Promise.all(searches);
    expect(server.peak).toBe(2);
    expect(server.requests.length).toBeLessThan(24);
  });

  test("one query that the server refuses does not fail the others", async () => {
    const picky: Handler = (request, response, index) =>
      (request.body.queries.includes("poison") ? status(422) : correct)(request, response, index);
    use(picky);
    const queries = [...Array.from({ length: 20 }, (_, i) => `q${i}`), "poison"];
    const outcomes = await Promise.allSettled(queries.map((query) => retriever.search([query], 1)));
    expect(outcomes.map(({ status }) => status)).toEqual([...Array(20).fill("fulfilled"), "rejected"]);
    expect(outcomes.at(-1)).toMatchObject({
      reason: { code: "RETRIEVAL_FAILED", message: expect.stringContaining("status 422") },
    });
  });
});

describe("abort", () => {
  test("rejects at once and ends the request", async () => {
    use(() => {});
    const controller = new AbortController();
    const search = retriever.search(["a"], 1, { signal: controller.signal });
    await expect.poll(() => server.inFlight).toBe(1);
    controller.abort(new Error("stop"));
    await expect(search).rejects.toMatchObject({ code: "ABORTED", cause: { message: "stop" } });
    await expect.poll(() => server.inFlight).toBe(0);
    expect(retriever.stats()).toMatchObject({ failures: 0 });
  });

  test("of one search leaves those that share its request alone", async () => {
    use((request, response) => void setTimeout(() => sendJson(response, answer(request)), 50));
    const controller = new AbortController();
    const aborted = retriever.search(["a", "b"], 1, { signal: controller.signal });
    const other = retriever.search(["a"], 1);
    await expect.poll(() => server.inFlight).toBe(1);
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect((await other)[0]?.[0]?.id).toBe("id-a");
    expect(server.requests).toHaveLength(1);
  });

  test("before the request is sent sends nothing, and the next search has its own", async () => {
    use(correct, { batchWindowMs: 30 });
    const controller = new AbortController();
    const aborted = retriever.search(["a"], 1, { signal: controller.signal });
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect((await retriever.search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(server.requests).toHaveLength(1);
    await expect(retriever.search(["a"], 1, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "ABORTED",
    });
  });

  test("during a wait for the server", async () => {
    use(status(503, { "retry-after": "60" }));
    const controller = new AbortController();
    const search = retriever.search(["a"], 1, { signal: controller.signal });
    await expect.poll(() => server.requests.length).toBe(1);
    controller.abort();
    await expect(search).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describe("secrets", () => {
  const bounce: Handler = (request, response) =>
    void response
      .writeHead(400)
      .end(`bad key ${request.headers.authorization} ${request.headers["x-key"]} ${request.path}`);
  const echoes: [string, Handler][] = [
    ["a refusal", bounce],
    [
      "a page with status 200",
      (request, response) => void response.end(`<p>${request.headers.authorization}`),
    ],
    [
      "nothing but the key",
      (request, response) => void response.end(String(request.headers.authorization).slice(7)),
    ],
    [
      "a content type",
      (request, response) =>
        void response.writeHead(200, { "content-type": `${request.headers.authorization}` }).end("x"),
    ],
    [
      "a redirect",
      (request, response) =>
        void response.writeHead(302, { location: `http://x.invalid/?k=${request.headers["x-key"]}` }).end(),
    ],
  ];

  test.each(echoes)(
    "stay out of errors and their causes when the server repeats them in %s",
    async (_name, handler) => {
      const secret = "query-canary-77aa";
      use(handler, {
        url: `${server.origin}/retrieve?api_key=${secret}`,
        headers: { "x-key": "header-canary-31bd" },
        retries: 0,
      });
      const error = await retriever.search(["a"], 1).catch((error) => error);
      expect(server.requests[0]).toMatchObject({
        path: `/retrieve?api_key=${secret}`,
        headers: { authorization: `Bearer ${KEY}`, "x-key": "header-canary-31bd" },
      });
      const everything = inspect(error, { depth: 20, showHidden: true });
      expect(everything).toContain("RETRIEVAL_FAILED");
      expect(everything).not.toMatch(/canary/);
      expect(inspect(retriever, { depth: 20 })).not.toMatch(/canary/);
      expect(JSON.stringify(retriever)).not.toMatch(/canary/);
    },
  );

  test("come from the environment too", async () => {
    process.env.HINDSEARCH_RETRIEVER_API_KEY = "from-the-environment";
    try {
      await use(correct, { apiKey: undefined }).search(["a"], 1);
    } finally {
      delete process.env.HINDSEARCH_RETRIEVER_API_KEY;
    }
    expect(server.requests[0]?.headers.authorization).toBe("Bearer from-the-environment");
  });

  test("none: no header", async () => {
    await use(correct, { apiKey: undefined }).search(["a"], 1);
    expect(server.requests[0]?.headers).not.toHaveProperty("authorization");
  });
});

describe("options", () => {
  test.each<[string, Record<string, unknown>]>([
    ["url", { url: "file:///etc/passwd" }],
    ["url", { url: "localhost" }],
    ["url", { url: "http://user:password@127.0.0.1/" }],
    ["timeoutMs", { timeoutMs: 0 }],
    ["batchSize", { batchSize: 0.5 }],
    ["concurrency", { concurrency: Number.NaN }],
    ["maxRetryAfterMs", { maxRetryAfterMs: 2 ** 40 }],
    ["apiKey", { apiKey: 12345678 }],
    ["timeoutMS", { timeoutMS: 3 }],
  ])("wrong %s is refused by name and not printed", (name, options) => {
    const make = () => new HttpRetriever({ url: "http://127.0.0.1/", ...options } as HttpRetrieverOptions);
    expect(make).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(name) }),
    );
    expect(make).toThrow(
      expect.not.objectContaining({ message: expect.stringMatching(/password@|12345678/) }),
    );
  });

  test("a wrong topK is refused", async () => {
    await expect(use(correct).search(["a"], 0)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("closing waits for running searches and refuses later ones", async () => {
    use((request, response) => void setTimeout(() => sendJson(response, answer(request)), 30));
    const running = retriever.search(["a"], 1);
    const closing = retriever.close();
    await expect(retriever.search(["b"], 1)).rejects.toMatchObject({ code: "DISPOSED" });
    await closing;
    expect((await running)[0]).toHaveLength(1);
  });
});

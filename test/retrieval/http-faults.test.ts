import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { HttpRetriever, HttpRetrieverOptions } from "../../lib/retrieval/http.js";
import { type Handler, LoopbackServer, sendJson } from "../support/loopback-server.js";
import {
  breakOff,
  breakOffChunked,
  drop,
  first,
  flood,
  hang,
  raw,
  status,
  trickle,
} from "../support/misbehaviour.js";
import { correct, KEY, searchService } from "./search-service.js";

const service = searchService();
let retriever: HttpRetriever;
function use(handler: Handler, options: Partial<HttpRetrieverOptions> = {}): HttpRetriever {
  retriever = service.retriever(handler, options);
  return retriever;
}

describe("what may pass is repeated", () => {
  test.each([408, 409, 429, 500, 502, 503, 504])("status %d", async (code) => {
    expect((await use(first(2, status(code), correct)).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(service.server.requests).toHaveLength(3);
    expect(retriever.stats()).toMatchObject({ requests: 1, retries: 2, failures: 0 });
  });

  test.each<[string, Handler]>([
    ["a dropped connection", drop],
    ["an answer that breaks off", breakOff],
    ["a chunked answer that breaks off", breakOffChunked],
    ["no HTTP at all", raw((response) => response.socket?.end("SSH-2.0-OpenSSH\r\n"))],
    [
      "an HTML page with status 200",
      status(200, { "content-type": "text/html" }, "<html>maintenance</html>"),
    ],
    ["cut JSON", status(200, { "content-type": "application/json" }, '{"result": [[{"docum')],
    ["an empty body", status(200)],
    ["bytes that are no UTF-8", raw((response) => response.end(Buffer.from([0x22, 0xff, 0x22])))],
  ])("%s", async (_name, misbehave) => {
    expect((await use(first(1, misbehave, correct)).search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(service.server.requests).toHaveLength(2);
  });

  test("a server that never answers, after the time-out", async () => {
    const search = use(first(1, hang, correct), { timeoutMs: 100 }).search(["a"], 1);
    expect((await search)[0]?.[0]?.id).toBe("id-a");
    expect(service.server.gaps[0]).toBeGreaterThanOrEqual(95);
  });

  test("a body that trickles for ever, after the time-out", async () => {
    expect((await use(first(1, trickle, correct), { timeoutMs: 150 }).search(["a"], 1))[0]?.[0]?.id).toBe(
      "id-a",
    );
  });

  test("Retry-After is waited", async () => {
    await use(first(1, status(429, { "retry-after": "0.2" }), correct)).search(["a"], 1);
    expect(service.server.gaps[0]).toBeGreaterThanOrEqual(199);
  });

  test("until the retries are used up", async () => {
    const search = use(status(503, {}, "overloaded"), { retries: 2 });
    await expect(search.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: `Search at ${service.server.origin}/retrieve failed: status 503: "overloaded" (3 attempts).`,
    });
    expect(service.server.requests).toHaveLength(3);
    expect(retriever.stats()).toMatchObject({ requests: 1, retries: 2, failures: 1 });
  });

  test("nobody listens", async () => {
    const gone = use(correct, { retries: 1 });
    await service.server[Symbol.asyncDispose]();
    await expect(gone.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/connection failed: .*ECONNREFUSED.*\(2 attempts\)/),
    });
  });
});

describe("what cannot pass is not repeated", () => {
  test.each([401, 403, 404, 405, 410])("status %d", async (code) => {
    await expect(use(status(code)).search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining(`status ${code}`),
    });
    expect(service.server.requests).toHaveLength(1);
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
    expect(service.server.requests).toHaveLength(1);
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
    const search = use(flood, { maxResponseBytes: 1_000_000 }).search(["a"], 1);
    await expect(search).rejects.toMatchObject({
      message: expect.stringContaining("more than maxResponseBytes (1000000)"),
    });
    expect(service.server.requests).toHaveLength(1);
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
        url: `${service.server.origin}/retrieve?api_key=${secret}`,
        headers: { "x-key": "header-canary-31bd" },
        retries: 0,
      });
      const error = await retriever.search(["a"], 1).catch((error) => error);
      expect(service.server.requests[0]).toMatchObject({
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
    expect(service.server.requests[0]?.headers.authorization).toBe("Bearer from-the-environment");
  });

  test("none: no header", async () => {
    await use(correct, { apiKey: undefined }).search(["a"], 1);
    expect(service.server.requests[0]?.headers).not.toHaveProperty("authorization");
  });
});

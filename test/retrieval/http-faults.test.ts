import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import type { HttpRetriever, HttpRetrieverOptions } from "../../lib/retrieval/http.js";
import { type Handler, sendJson } from "../support/loopback-server.js";
import { status } from "../support/misbehaviour.js";
import { correct, KEY, searchService } from "./search-service.js";

const service = searchService();
let retriever: HttpRetriever;
function use(handler: Handler, options: Partial<HttpRetrieverOptions> = {}): HttpRetriever {
  retriever = service.retriever(handler, options);
  return retriever;
}

// What is repeated and what is not: test/faults.
describe("a search that fails for good", () => {
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
  test.each([
    ["hits without a document", { result: [[{ id: "1", contents: "x" }]] }, "result.0.0.document"],
    [
      "a document without contents",
      { result: [[{ document: { id: "1" }, score: 1 }]] },
      "result.0.0.document",
    ],
    ["a score in words", { result: [[{ document: "x", score: "high" }]] }, "result.0.0.score"],
  ])("%s", async (_name, value, where) => {
    await expect(
      use((_request, response) => sendJson(response, value)).search(["a"], 1),
    ).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining(where),
    });
    expect(service.server.requests).toHaveLength(1);
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

// Against real MCP servers, made with the official SDK: a process that speaks on its standard input and output, and one
// behind an address.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { inspect } from "node:util";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { afterEach, describe, expect, test } from "vitest";
import { McpRetriever, type McpRetrieverOptions } from "../../../lib/retrieval/engines/mcp.js";
import { mcpPassages } from "../../../lib/retrieval/engines/mcp-passages.js";
import { searchTools } from "./search-tools.js";

const KEY = "canary-key-5f2c9a";

const opened: McpRetriever[] = [];
const servers: Server[] = [];
afterEach(async () => {
  for (const retriever of opened.splice(0)) await retriever.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

function open(options: McpRetrieverOptions): McpRetriever {
  const retriever = new McpRetriever({ baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 1, ...options });
  opened.push(retriever);
  return retriever;
}
const program = {
  command: process.execPath,
  args: ["--import", "tsx", join(import.meta.dirname, "search-tools.ts"), "stdio"],
  env: { SEARCH_KEY: KEY },
};
const use = (tool: string, options: Partial<McpRetrieverOptions> = {}) =>
  open({ server: program, tool, ...options });
const failure = async (retriever: McpRetriever) => {
  const error = await retriever.search(["q"], 2).then(
    () => undefined,
    (reason) => reason,
  );
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
  return error;
};

describe("a server that is a program", () => {
  test("structured answers, many queries over one connection", async () => {
    const options = { arguments: (query: string, limit: number) => ({ query, limit }) };
    const queries = Array.from({ length: 20 }, (_, i) => `q${i}`);
    const lists = await use("structured", options).search(queries, 2);
    expect(lists).toEqual(
      queries.map((query) => [
        { id: `${query}-1`, title: "T1", text: query, score: 1 },
        { id: `${query}-2`, title: "T2", text: query, score: 0.5 },
      ]),
    );
  });

  test("one text per passage, JSON in a text, nothing, and a mapping of one's own", async () => {
    expect(await use("texts").search(["q"], 5)).toEqual([
      [
        { id: expect.stringMatching(/^sha256-/), title: "Title", text: "q" },
        { id: expect.stringMatching(/^sha256-/), title: "", text: "plain" },
      ],
    ]);
    expect(await use("json").search(["q"], 1)).toEqual([[{ id: "http://x", title: "N", text: "q" }]]);
    expect(await use("nothing").search(["q"], 1)).toEqual([[]]);
    const passages: McpRetrieverOptions["passages"] = ({ content = [] }) =>
      content.map((block, i) => ({ id: String(i), title: "", text: (block.text ?? "").toUpperCase() }));
    expect((await use("texts", { passages }).search(["q"], 2))[0]?.[1]).toEqual({
      id: "1",
      title: "",
      text: "PLAIN",
    });
  });

  test("a tool that fails is asked again; its words are scrubbed", async () => {
    expect((await use("fails-first").search(["q"], 1))[0]?.[0]?.text).toBe("q");
    expect(await failure(use("fails", { retries: 1 }))).toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(
        /^Search at MCP tool fails of .*the tool failed: "no index, key \*\*\*" \(2 attempts\)/,
      ),
    });
  });

  test("a program that dies is started again, then it is RETRIEVAL_FAILED", async () => {
    const retriever = use("dies", { retries: 1 });
    expect(await failure(retriever)).toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/Connection closed.*\(2 attempts\)/),
    });
  });

  test("silence, after the time-out", async () => {
    const retriever = use("hangs", { retries: 0, timeoutMs: 3000 });
    expect(await failure(retriever)).toMatchObject({
      message: expect.stringMatching(/within 3000 ms|timed out/),
    });
  });

  test("an abort", async () => {
    const controller = new AbortController();
    const search = use("hangs").search(["q"], 1, { signal: controller.signal });
    setTimeout(() => controller.abort(), 1500);
    await expect(search).rejects.toMatchObject({ code: "ABORTED" });
  });

  test.each<[string, Partial<McpRetrieverOptions>, RegExp]>([
    ["sarch", {}, /no such tool; it has: "structured, texts/],
    ["numbers", {}, /cannot be read as passages: it holds more than one list; see the option passages/],
    ["texts", { passages: () => [{ id: 1 }] as never }, /the option passages gave something else/],
    ["texts", { arguments: () => ({ limit: "x" }) }, /query/],
    ["structured", { server: { command: "no-such-program-5f2c" }, retries: 0 }, /ENOENT/],
  ])("%s: what is wrong is said", async (tool, options, message) => {
    expect(await failure(use(tool, { retries: 0, ...options }))).toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(message),
    });
  });

  test("messages above the limit end the connection", async () => {
    expect(await failure(use("floods", { retries: 0, maxResponseBytes: 100_000 }))).toMatchObject({
      code: "RETRIEVAL_FAILED",
    });
  });

  test("the program does not get our environment", async () => {
    process.env.SOME_SECRET_OF_OURS = KEY;
    const [list] = await use("environment").search(["q"], 1);
    delete process.env.SOME_SECRET_OF_OURS;
    expect(list?.[0]?.text).toContain("SEARCH_KEY");
    expect(list?.[0]?.text).not.toContain("SOME_SECRET_OF_OURS");
  });
});

describe("a server behind an address", () => {
  /** A server without sessions; `before` may answer instead. */
  async function serve(
    before: (path: string, n: number) => { status: number; headers?: object } | undefined = () => undefined,
  ) {
    const seen: (string | undefined)[] = [];
    const server = createServer(async (request, response) => {
      seen.push(request.headers.authorization);
      const instead = before(request.url ?? "", seen.length);
      if (instead !== undefined) return response.writeHead(instead.status, { ...instead.headers }).end();
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
      await searchTools().connect(transport as Parameters<ReturnType<typeof searchTools>["connect"]>[0]);
      await transport.handleRequest(request, response);
    }).listen(0, "127.0.0.1");
    servers.push(server);
    await new Promise((done) => server.once("listening", done));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, seen };
  }

  test("is asked with the token", async () => {
    const { url, seen } = await serve();
    expect(await open({ server: { url, token: KEY }, tool: "texts" }).search(["q"], 1)).toEqual([
      [{ id: expect.any(String), title: "Title", text: "q" }],
    ]);
    expect(new Set(seen)).toEqual(new Set([`Bearer ${KEY}`]));
  });

  test("what may pass is repeated", async () => {
    const { url } = await serve((_path, n) => (n < 3 ? { status: 503 } : undefined));
    expect((await open({ server: { url }, tool: "json" }).search(["q"], 1))[0]).toHaveLength(1);
  });

  test("a redirect is not followed with the token, and 401 is final", async () => {
    const other = await serve();
    const { url } = await serve((path) =>
      path === "/mcp" ? { status: 307, headers: { location: other.url } } : undefined,
    );
    const redirected = open({ server: { url, token: KEY }, tool: "json" });
    expect(await failure(redirected)).toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("307"),
    });
    expect(other.seen).toEqual([]);
    const closed = await serve(() => ({ status: 401 }));
    const refused = open({ server: { url: closed.url, token: KEY }, tool: "json", retries: 3 });
    expect(await failure(refused)).toMatchObject({ code: "RETRIEVAL_FAILED" });
    expect(refused.stats().retries).toBe(0);
  });
});

test.each([
  [
    { structuredContent: { hits: [{ uri: "u", heading: "H", body: "b", relevance: 0.5 }] } },
    [{ id: "u", title: "H", text: "b", score: 0.5 }],
  ],
  [{ structuredContent: { id: 7, contents: '"T"\nx' } }, [{ id: "7", title: "T", text: "x" }]],
  [
    { content: [{ type: "resource", resource: { uri: "file:///a", text: "t" } }] },
    [{ id: "file:///a", title: "", text: "t" }],
  ],
  [{ content: [{ type: "image" }] }, []],
  [
    { content: [{ type: "text", text: "[not json" }] },
    [{ id: expect.any(String), title: "", text: "[not json" }],
  ],
  [
    { content: [{ type: "text", text: '["a", "b"]' }] },
    ["a", "b"].map((text) => ({ id: expect.any(String), title: "", text })),
  ],
])("passages of %j", (result, passages) => expect(mcpPassages(result)).toEqual(passages));

/** An MCP server with search tools, good and bad; as a program it speaks on its standard input and output. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const text = (...texts: string[]) => ({ content: texts.map((text) => ({ type: "text" as const, text })) });

export function searchTools(): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  const inputSchema = { query: z.string(), limit: z.int().optional() };
  let calls = 0;
  server.registerTool(
    "structured",
    { inputSchema, outputSchema: { results: z.array(z.looseObject({ id: z.string() })) } },
    async ({ query, limit = 2 }) => {
      const results = [1, 2, 3]
        .slice(0, limit)
        .map((i) => ({ id: `${query}-${i}`, title: `T${i}`, text: query, score: 1 / i }));
      return { ...text(JSON.stringify({ results })), structuredContent: { results } };
    },
  );
  server.registerTool("texts", { inputSchema }, async ({ query }) => text(`"Title"\n${query}`, "plain", ""));
  server.registerTool("json", { inputSchema }, async ({ query }) =>
    text(JSON.stringify([{ url: "http://x", name: "N", snippet: query }])),
  );
  server.registerTool("nothing", { inputSchema }, async () => text());
  server.registerTool("numbers", { inputSchema }, async () => text('{"a": [1], "b": [2]}'));
  server.registerTool("fails-first", { inputSchema }, async ({ query }) => {
    if (calls++ === 0) return { ...text(`overloaded, key ${process.env.SEARCH_KEY}`), isError: true };
    return text(query);
  });
  server.registerTool("fails", { inputSchema }, async () => {
    throw new Error(`no index, key ${process.env.SEARCH_KEY}`);
  });
  server.registerTool("dies", { inputSchema }, async () => process.exit(1));
  server.registerTool("hangs", { inputSchema }, () => new Promise(() => {}));
  server.registerTool("environment", { inputSchema }, async () => text(Object.keys(process.env).join(" ")));
  server.registerTool("floods", { inputSchema }, async () => text("x".repeat(1_000_000)));
  return server;
}

if (process.argv[2] === "stdio") await searchTools().connect(new StdioServerTransport());

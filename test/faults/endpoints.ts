import { ChatJudge } from "../../lib/judge/chat.js";
import { McpRetriever } from "../../lib/retrieval/engines/mcp.js";
import { INPUT } from "../judge/chat-service.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { CLIENT, type ClientName } from "./clients.js";

/** A client with credentials: a row of the table. */
export interface Endpoint {
  name: string;
  /** The environment variable that has its secret, unless an option does. */
  variable: string;
  /** How the secret is sent. */
  header: string;
  sent(secret: string): string;
  /** Redirects that it follows within the same origin. */
  follows?: readonly number[];
  /** Asks once, and rejects if that fails. */
  ask(origin: string, secret?: string): Promise<unknown>;
}

const SETTINGS = { retries: 0, baseDelayMs: 1, timeoutMs: 5000, maxResponseBytes: 1_000_000 };

const client = (name: ClientName) => async (origin: string, key?: string) => {
  const opened = await CLIENT[name].open(origin, { ...SETTINGS, ...(key !== undefined && { key }) });
  try {
    return await opened.ask(["a"]);
  } finally {
    await opened.close();
  }
};
const bearer = { header: "authorization", sent: (secret: string) => `Bearer ${secret}` };

export const ENDPOINTS: readonly Endpoint[] = [
  { name: "Search-R1", variable: "HINDSEARCH_RETRIEVER_API_KEY", ...bearer, ask: client("Search-R1") },
  { name: "FlashRAG", variable: "HINDSEARCH_RETRIEVER_API_KEY", ...bearer, ask: client("FlashRAG") },
  {
    name: "Elasticsearch",
    variable: "HINDSEARCH_ELASTICSEARCH_API_KEY",
    header: "authorization",
    sent: (secret) => `ApiKey ${secret}`,
    ask: client("Elasticsearch"),
  },
  {
    name: "OpenSearch",
    variable: "HINDSEARCH_OPENSEARCH_PASSWORD",
    header: "authorization",
    sent: (secret) => `Basic ${Buffer.from(`reader:${secret}`).toString("base64")}`,
    ask: client("OpenSearch"),
  },
  {
    name: "Qdrant",
    variable: "HINDSEARCH_QDRANT_API_KEY",
    header: "api-key",
    sent: (secret) => secret,
    ask: client("Qdrant"),
  },
  {
    name: "MCP",
    variable: "HINDSEARCH_MCP_TOKEN",
    ...bearer,
    // The official SDK does.
    follows: [307, 308],
    ask: async (origin, token) => {
      const server = { url: `${origin}/mcp`, ...(token !== undefined && { token }) };
      const retriever = new McpRetriever({ server, tool: "search", ...SETTINGS });
      try {
        return await retriever.search(["a"], 1);
      } finally {
        await retriever.close();
      }
    },
  },
  { name: "embedding", variable: "HINDSEARCH_EMBEDDING_API_KEY", ...bearer, ask: client("embedding") },
  { name: "re-ranker", variable: "HINDSEARCH_RERANKER_API_KEY", ...bearer, ask: client("re-ranker") },
  {
    name: "judge",
    variable: "HINDSEARCH_JUDGE_API_KEY",
    ...bearer,
    ask: async (origin, apiKey) => {
      const judge = new ChatJudge({
        baseURL: `${origin}/v1`,
        model: "m",
        tokenizer: byteTokenizer(),
        structured: "never",
        ...(apiKey !== undefined && { apiKey }),
        ...SETTINGS,
      });
      const critique = await judge.critique(INPUT);
      if (critique.status !== "ok") throw new Error(critique.reason);
      return critique;
    },
  },
];

/** What a redirect says and how the table calls it. */
export const REDIRECTS = [301, 302, 303, 307, 308] as const;

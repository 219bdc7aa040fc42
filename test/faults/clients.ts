import type { EndpointStats } from "../../lib/network/json-endpoint.js";
import { HttpEmbedding } from "../../lib/retrieval/embedding/http.js";
import { ElasticsearchRetriever } from "../../lib/retrieval/engines/elasticsearch.js";
import { OpenSearchRetriever } from "../../lib/retrieval/engines/opensearch.js";
import { QdrantRetriever } from "../../lib/retrieval/engines/qdrant.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { RemoteRetriever } from "../../lib/retrieval/remote.js";
import { RerankedRetriever } from "../../lib/retrieval/reranked.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { type Handler, type ReceivedRequest, sendJson } from "../support/loopback-server.js";

/** Everything that searches through a server which answers JSON. */
export const CLIENTS = [
  "Search-R1",
  "FlashRAG",
  "Elasticsearch",
  "OpenSearch",
  "Qdrant",
  "embedding",
  "re-ranker",
] as const;
export type ClientName = (typeof CLIENTS)[number];

/** Those with batches, counts and repetitions of single queries. */
export const RETRIEVERS = CLIENTS.slice(0, 5) as Exclude<ClientName, "embedding" | "re-ranker">[];

/** What all of them take. */
export interface ClientOptions {
  retries: number;
  baseDelayMs: number;
  timeoutMs: number;
  maxResponseBytes: number;
  maxRetryAfterMs?: number;
}

/** A client that talks to a server. */
export interface OpenedClient {
  /** For each text the names that came back; of a good answer the first is the text itself. */
  ask(texts: readonly string[], topK?: number): Promise<string[][]>;
  stats(): EndpointStats;
  /** If it is one. */
  retriever?: Retriever;
  close(): Promise<void>;
}

/** A client and the server that it expects. */
export interface Client {
  /** What a good server answers. */
  answer(request: ReceivedRequest): unknown;
  /** An answer with another list of results, of which a good one has one for each query (text, passage). */
  change(answer: unknown, change: (results: unknown[]) => unknown[]): unknown;
  /** Headers that a good server always sends. */
  headers?: Record<string, string>;
  open(origin: string, options: ClientOptions & Credentials): Promise<OpenedClient>;
}

/** Where a client has its secret. */
export interface Credentials {
  key?: string;
}

/** Serves what a good server answers. */
export const correct =
  (client: Client): Handler =>
  (request, response) =>
    sendJson(response, client.answer(request), 200, client.headers);

/** Serves a changed answer. */
export const changed =
  (client: Client, change: (results: unknown[]) => unknown[]): Handler =>
  (request, response) =>
    sendJson(response, client.change(client.answer(request), change), 200, client.headers);

/** The passages that a good engine has for a query, best first. */
const namesFor = (query: string, topK: number) => [query, `${query}-2`, `${query}-3`].slice(0, topK);

function retriever(opened: RemoteRetriever): OpenedClient {
  return {
    retriever: opened,
    ask: async (texts, topK = 2) =>
      (await opened.search(texts, topK)).map((list) => list.map(({ id }) => id)),
    stats: () => opened.stats(),
    close: () => opened.close(),
  };
}

const document = (name: string) => ({ id: name, contents: `"${name}"\nabout ${name}` });
const payload = (name: string) => ({ title: name, text: `about ${name}` });
const inField =
  (field: string): Client["change"] =>
  (answer, change) => {
    const fields = answer as Record<string, unknown[]>;
    return { ...fields, [field]: change(fields[field] ?? []) };
  };

const searchR1: Client = {
  answer: ({ body }) => ({
    result: body.queries.map((query: string) =>
      namesFor(query, body.topk).map((name, i) => ({ document: document(name), score: 3 - i })),
    ),
  }),
  change: inField("result"),
  open: async (origin, { key, ...options }) =>
    retriever(new HttpRetriever({ url: `${origin}/retrieve`, apiKey: key, batchWindowMs: 0, ...options })),
};

const flashRag: Client = {
  answer: ({ body }) => [
    body.query.map((query: string) => namesFor(query, body.top_n).map(document)),
    body.query.map((query: string) => namesFor(query, body.top_n).map((_, i) => 3 - i)),
  ],
  change: (answer, change) => (answer as unknown[][]).map(change),
  open: async (origin, { key, ...options }) => {
    const url = `${origin}/batch_search`;
    return retriever(
      new HttpRetriever({ url, dialect: "flashrag", apiKey: key, batchWindowMs: 0, ...options }),
    );
  },
};

/** What Elasticsearch and OpenSearch are asked. */
interface SearchLine {
  size: number;
  query: { multi_match: { query: string } };
}

const lucene: Omit<Client, "open"> = {
  answer: ({ body }) => ({
    responses: body
      .filter((_: unknown, i: number) => i % 2 === 1)
      .map(({ size, query }: SearchLine) => ({
        timed_out: false,
        _shards: { failed: 0 },
        hits: {
          hits: namesFor(query.multi_match.query, size).map((name, i) => ({
            _id: name,
            _score: 3 - i,
            _source: payload(name),
          })),
        },
      })),
  }),
  change: inField("responses"),
  headers: { "x-elastic-product": "Elasticsearch" },
};

const elasticsearch: Client = {
  ...lucene,
  open: async (url, { key, ...options }) =>
    retriever(new ElasticsearchRetriever({ url, index: "wiki", apiKey: key, batchWindowMs: 0, ...options })),
};

const openSearch: Client = {
  ...lucene,
  open: async (url, { key, ...options }) => {
    const login = { username: "reader", password: key };
    return retriever(new OpenSearchRetriever({ url, index: "wiki", ...login, batchWindowMs: 0, ...options }));
  },
};

/** Texts are one character long here, and their vectors begin with its code. */
const codes = {
  name: "codes",
  embed: async (texts: readonly string[]) => texts.map((text) => Float32Array.of(text.charCodeAt(0), 1)),
};

const qdrant: Client = {
  answer: ({ body }) => ({
    result: body.searches.map(({ query, limit }: { query: number[]; limit: number }) => ({
      points: namesFor(String.fromCharCode(query[0] ?? 0), limit).map((name, i) => ({
        id: 1,
        score: 3 - i,
        payload: { ...payload(name), name },
      })),
    })),
  }),
  change: inField("result"),
  open: async (url, { key, ...options }) => {
    const where = { url, collection: "wiki", embedding: codes, fields: { id: "name" } };
    return retriever(new QdrantRetriever({ ...where, apiKey: key, batchWindowMs: 0, ...options }));
  },
};

const embedding: Client = {
  answer: ({ body }) => ({
    data: body.input.map((text: string, index: number) => ({ index, embedding: [text.charCodeAt(0), 1] })),
  }),
  change: inField("data"),
  open: async (origin, { key, ...options }) => {
    const url = `${origin}/v1/embeddings`;
    const model = new HttpEmbedding({ url, model: "codes", apiKey: key, normalize: false, ...options });
    return {
      ask: async (texts) =>
        (await model.embed(texts, "query")).map(([code = 0]) => [String.fromCharCode(code)]),
      stats: () => model.stats(),
      close: () => model.close(),
    };
  },
};

const reRanker: Client = {
  // The first search finds the best passage last.
  answer: ({ body }) => body.texts.map((text: string, index: number) => ({ index, score: text.length })),
  change: (answer, change) => change(answer as unknown[]),
  open: async (origin, { key, ...options }) => {
    const passages = ["a", "b"].flatMap((name) => [
      { id: `${name}-2`, title: "", text: name },
      { id: name, title: "", text: `${name} and more` },
    ]);
    const url = `${origin}/rerank`;
    const inner = await MemoryRetriever.create(passages);
    const ranked = new RerankedRetriever(inner, { url, apiKey: key, ...options });
    return {
      ask: async (texts, topK = 2) =>
        (await ranked.search(texts, topK)).map((list) => list.map(({ id }) => id)),
      stats: () => ranked.stats(),
      close: () => ranked.close(),
    };
  },
};

export const CLIENT: Readonly<Record<ClientName, Client>> = {
  "Search-R1": searchR1,
  FlashRAG: flashRag,
  Elasticsearch: elasticsearch,
  OpenSearch: openSearch,
  Qdrant: qdrant,
  embedding,
  "re-ranker": reRanker,
};

import { z } from "zod";
import { elasticsearchShape } from "../../retrieval/engines/elasticsearch.js";
import { luceneShape } from "../../retrieval/engines/lucene.js";
import { mcpShape } from "../../retrieval/engines/mcp.js";
import { postgresShape } from "../../retrieval/engines/postgres.js";
import { qdrantShape } from "../../retrieval/engines/qdrant.js";
import { httpRetrieverShape } from "../../retrieval/http.js";
import { rerankedShape } from "../../retrieval/reranked.js";
import { Embedding } from "./embedding.js";
import { count, described, kind, path, without } from "./fields.js";
import { ENDPOINT_TEXTS, keyText, REMOTE_TEXTS } from "./network.js";

const Reranker = z
  .strictObject(
    described(rerankedShape, {
      ...ENDPOINT_TEXTS,
      apiKey: keyText("HINDSEARCH_RERANKER_API_KEY"),
      dialect: "`tei` or `cohere`. Default: `cohere` if `model` is given, else `tei`.",
      model: "Which model; needed by `cohere`.",
      candidates: "Passages that the first search is asked for.",
      maxTextLength: "Longer passages and queries are cut to so many characters.",
    }),
  )
  .meta({ id: "rerank" });

const rerank = {
  rerank: Reranker.optional().describe("A cross-encoder behind HTTP that puts the passages in order."),
};
const embedding = Embedding.optional().describe(
  "The model that the passages were embedded with; needed by a search by vectors.",
);

const Memory = z.strictObject({
  kind: kind("memory", "Exact BM25 over a corpus held in memory; up to about a million passages."),
  corpus: z
    .union([path, z.array(path).min(1)])
    .describe("JSON Lines or Parquet of passages, or a folder of text; one path or several."),
  k1: z.number().min(0).optional().describe("BM25's k1. Default 0.9, as Search-R1's."),
  b: z.number().min(0).max(1).optional().describe("BM25's b. Default 0.4, as Search-R1's."),
  ...rerank,
});

const Index = z.strictObject({
  kind: kind("index", "The embedded search engine; `hindsearch index` builds the index."),
  folder: path.describe("The index: a folder, or an `s3://`, `gs://` or `az://` address."),
  mode: z
    .enum(["lexical", "dense", "hybrid"])
    .optional()
    .describe("Default `hybrid` if an embedding is given, else `lexical`."),
  embedding,
  checksum: z
    .string()
    .min(1)
    .optional()
    .describe("What the index's checksum must be; an index of another corpus is refused."),
  concurrency: count.optional().describe("Searches at work at the same time. Default `max(4, 2 * cores)`."),
  probes: count
    .optional()
    .describe("Partitions of the vector index that a query looks into. Default: a third of them."),
  storageOptions: z
    .record(z.string(), z.string())
    .optional()
    .describe("Of an object store, as LanceDB names them; secrets: refer to variables."),
  ...rerank,
});

const Http = z.strictObject({
  kind: kind("http", "A search service that speaks Search-R1's or FlashRAG's contract."),
  ...described(httpRetrieverShape, {
    ...REMOTE_TEXTS,
    url: "Address of the endpoint, e.g. `http://127.0.0.1:8000/retrieve`.",
    dialect: "Search-R1's `POST /retrieve`, or FlashRAG's `POST /batch_search`.",
    apiKey: keyText("HINDSEARCH_RETRIEVER_API_KEY"),
    headers: ENDPOINT_TEXTS.headers,
    maxResponseBytes: ENDPOINT_TEXTS.maxResponseBytes,
  }),
  ...rerank,
});

const LUCENE_TEXTS = {
  ...REMOTE_TEXTS,
  url: "Address of the cluster, e.g. `https://localhost:9200`; without user and password.",
  index: "Index, alias, or pattern.",
  username: "User, for basic authentication.",
  password: "The user's password, a secret: refer to a variable.",
  tls: "How the server's certificate is checked.",
  fields: "The fields of title and text.",
  search: "BM25 over fields (`match`), or nearest neighbours (`knn`).",
  maxResponseBytes: ENDPOINT_TEXTS.maxResponseBytes,
};

const Elasticsearch = z.strictObject({
  kind: kind("elasticsearch", "An index of Elasticsearch; needs the package @elastic/elasticsearch."),
  ...described(without(elasticsearchShape, "embedding"), {
    ...LUCENE_TEXTS,
    apiKey:
      "Wins over user and password; a secret: refer to a variable. Without it the variable `HINDSEARCH_ELASTICSEARCH_API_KEY` is read, if it is set.",
  }),
  embedding,
  ...rerank,
});

const OpenSearch = z.strictObject({
  kind: kind("opensearch", "An index of OpenSearch; needs the package @opensearch-project/opensearch."),
  ...described(without(luceneShape, "embedding"), LUCENE_TEXTS),
  embedding,
  ...rerank,
});

const Postgres = z.strictObject({
  kind: kind("postgres", "A table of PostgreSQL; needs the package pg."),
  ...described(without(postgresShape, "embedding"), {
    ...REMOTE_TEXTS,
    connection: "How to reach the server; what is absent comes from `PGHOST`, `PGPASSWORD` and the like.",
    schema: "Default: the connection's search path.",
    table: "The table of passages.",
    columns: "The columns of a passage.",
    search: "Full text, BM25 by pg_textsearch, or vectors by pgvector.",
  }),
  embedding,
  ...rerank,
});

const Qdrant = z.strictObject({
  kind: kind("qdrant", "A collection of Qdrant; needs the package @qdrant/js-client-rest."),
  ...described(without(qdrantShape, "embedding"), {
    ...REMOTE_TEXTS,
    url: "Address of the REST interface, e.g. `http://localhost:6333`.",
    apiKey: keyText("HINDSEARCH_QDRANT_API_KEY"),
    collection: "The collection, with a payload on each point.",
    vector: "Which of a collection's named vectors is searched. Default: its only one.",
    fields: "The fields of a passage in the payload.",
    maxResponseBytes: ENDPOINT_TEXTS.maxResponseBytes,
  }),
  embedding: Embedding.describe("The model that the points were embedded with."),
  ...rerank,
});

const Mcp = z.strictObject({
  kind: kind("mcp", "A tool of an MCP server; needs the package @modelcontextprotocol/sdk."),
  ...described(without(mcpShape, "arguments", "passages"), {
    ...REMOTE_TEXTS,
    server:
      "A program (`command`, `args`, `env`, `cwd`), or a server (`url`, `token`, `headers`); values of `env`, `token` and `headers` are secrets: refer to variables.",
    tool: "The tool that searches.",
    maxResponseBytes: "Most bytes of a message.",
  }),
  arguments: z
    .record(z.string(), z.unknown())
    .default({ query: "{query}" })
    .describe(
      "The tool's arguments; `{query}` and `{topK}` stand for what is searched for and how many passages are wanted.",
    ),
  ...rerank,
});

/** What searches. */
export const Retriever = z
  .discriminatedUnion("kind", [Memory, Index, Http, Postgres, Elasticsearch, OpenSearch, Qdrant, Mcp])
  .meta({ id: "retriever" });

/** See {@link Retriever}. */
export type RetrieverConfig = z.output<typeof Retriever>;

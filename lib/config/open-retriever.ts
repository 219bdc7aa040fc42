import type { AbortOptions } from "../abort.js";
import { CorpusIndex } from "../retrieval/embedded/corpus-index.js";
import type { EmbeddingModel } from "../retrieval/embedding/embedding-model.js";
import { HashedEmbedding } from "../retrieval/embedding/hashed.js";
import { HttpEmbedding } from "../retrieval/embedding/http.js";
import { ElasticsearchRetriever } from "../retrieval/engines/elasticsearch.js";
import { McpRetriever } from "../retrieval/engines/mcp.js";
import { OpenSearchRetriever } from "../retrieval/engines/opensearch.js";
import { PostgresRetriever } from "../retrieval/engines/postgres.js";
import { QdrantRetriever } from "../retrieval/engines/qdrant.js";
import { HttpRetriever } from "../retrieval/http.js";
import { MemoryRetriever } from "../retrieval/memory.js";
import { RerankedRetriever } from "../retrieval/reranked.js";
import type { Retriever } from "../retrieval/retriever.js";
import { readCorpus } from "../retrieval/sources/corpus.js";
import { defined } from "./defined.js";
import type { EmbeddingConfig } from "./schema/embedding.js";
import type { RetrieverConfig } from "./schema/retriever.js";

/** Turns a path of a configuration into one that can be opened. */
export type ResolvePath = (path: string) => string;

/** A retriever of a configuration, with what it uses. */
export class OpenRetriever implements AsyncDisposable {
  private constructor(
    /** Searches. */
    readonly retriever: Retriever,
    private readonly embedding: EmbeddingModel | undefined,
  ) {}

  /**
   * Opens a retriever; connections are made at the first search.
   *
   * @throws {@link HindsearchError} What opening an index or reading a corpus throws; `INVALID_ARGUMENT`.
   */
  static async open(
    config: RetrieverConfig,
    resolve: ResolvePath,
    { signal }: AbortOptions = {},
  ): Promise<OpenRetriever> {
    const embedding = "embedding" in config && config.embedding ? openEmbedding(config.embedding) : undefined;
    try {
      const retriever = await openFirst(config, embedding, resolve, signal);
      const ranked =
        config.rerank === undefined ? retriever : new RerankedRetriever(retriever, config.rerank);
      return new OpenRetriever(ranked, embedding);
    } catch (error) {
      await closeEmbedding(embedding);
      throw error;
    }
  }

  /** Gives back connections, files and memory. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.retriever.close?.();
    await closeEmbedding(this.embedding);
  }
}

/** An embedding model of a configuration. */
export function openEmbedding(config: EmbeddingConfig): EmbeddingModel {
  if (config.kind === "hashed") return new HashedEmbedding({ dimensions: config.dimensions });
  const { kind: _, ...options } = config;
  return new HttpEmbedding(options);
}

/** Gives back its connections, if it has any. */
export async function closeEmbedding(embedding: EmbeddingModel | undefined): Promise<void> {
  if (embedding instanceof HttpEmbedding) await embedding.close();
}

async function openFirst(
  config: RetrieverConfig,
  embedding: EmbeddingModel | undefined,
  resolve: ResolvePath,
  signal: AbortSignal | undefined,
): Promise<Retriever> {
  switch (config.kind) {
    case "memory": {
      const { kind: _, rerank: __, corpus, ...options } = config;
      const paths = [corpus].flat().map(resolve);
      return MemoryRetriever.create(readCorpus(paths, { signal }), { ...defined(options), signal });
    }
    case "index": {
      const { kind: _, rerank: __, folder, ...options } = config;
      return CorpusIndex.open(resolve(folder), { ...options, embedding, signal });
    }
    case "http": {
      const { kind: _, rerank: __, ...options } = config;
      return new HttpRetriever(options);
    }
    case "elasticsearch": {
      const { kind: _, rerank: __, ...options } = config;
      return new ElasticsearchRetriever({ ...options, embedding });
    }
    case "opensearch": {
      const { kind: _, rerank: __, ...options } = config;
      return new OpenSearchRetriever({ ...options, embedding });
    }
    case "postgres": {
      const { kind: _, rerank: __, ...options } = config;
      return new PostgresRetriever({ ...options, embedding });
    }
    case "qdrant": {
      const { kind: _, rerank: __, ...options } = config;
      return new QdrantRetriever({ ...options, embedding: embedding as EmbeddingModel });
    }
    case "mcp": {
      const { kind: _, rerank: __, arguments: template, ...options } = config;
      return new McpRetriever({
        ...options,
        arguments: (query, topK) => fillArguments(template, query, topK),
      });
    }
  }
}

/** A template whose texts are exactly `{query}` or `{topK}` gets the query or the number; in longer texts they are put in. */
function fillArguments(
  template: Readonly<Record<string, unknown>>,
  query: string,
  topK: number,
): Record<string, unknown> {
  const fill = (value: unknown): unknown => {
    if (value === "{topK}") return topK;
    if (typeof value === "string")
      return value.replaceAll(/\{(query|topK)\}/g, (_, name) => (name === "query" ? query : String(topK)));
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fill(inner)]));
  };
  return fill(template) as Record<string, unknown>;
}

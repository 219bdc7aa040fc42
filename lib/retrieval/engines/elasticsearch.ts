import type { Client } from "@elastic/elasticsearch";
import { z } from "zod";
import type { RawAnswer } from "../../network/json-answer.js";
import { parseOptions } from "../../network/options.js";
import { loadOptional } from "../../optional-package.js";
import {
  type LuceneOptions,
  LuceneRetriever,
  luceneShape,
  needsEmbedding,
  type SearchBody,
} from "./lucene.js";

/** Settings of {@link ElasticsearchRetriever}. */
export interface ElasticsearchRetrieverOptions extends LuceneOptions {
  /** Wins over user and password. Default without them: the environment variable `HINDSEARCH_ELASTICSEARCH_API_KEY`. */
  apiKey?: string | undefined;
}

/** Schema of {@link ElasticsearchRetrieverOptions}. @internal */
export const elasticsearchShape = { ...luceneShape, apiKey: z.string().min(1).optional() };
const Options = z.strictObject(elasticsearchShape).refine(needsEmbedding.check, needsEmbedding.message);

/**
 * Searches an index of Elasticsearch 9, by BM25 or vectors. Needs the optional package `@elastic/elasticsearch`, loaded
 * on first use; its own retries, sniffing and compression are off.
 *
 * Searches go out together as `_msearch`. One that its answer calls failed is repeated alone; one that only a part of the
 * shards answered has failed.
 */
export class ElasticsearchRetriever extends LuceneRetriever<Client> {
  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: ElasticsearchRetrieverOptions) {
    const checked = parseOptions(Options, options, "ElasticsearchRetriever");
    const { url, username, password, tls, concurrency } = checked;
    const fromEnvironment = username === undefined ? process.env.HINDSEARCH_ELASTICSEARCH_API_KEY : undefined;
    const apiKey = checked.apiKey ?? (fromEnvironment || undefined);
    super("Elasticsearch", checked, [apiKey], async () => {
      const { Client } = await loadOptional(
        "ElasticsearchRetriever",
        ["@elastic/elasticsearch@^9.4.0"],
        () => import("@elastic/elasticsearch"),
      );
      return new Client({
        node: url,
        maxRetries: 0,
        compression: false,
        enableMetaHeader: false,
        agent: { connections: concurrency },
        ...(apiKey !== undefined && { auth: { apiKey } }),
        ...(apiKey === undefined &&
          username !== undefined &&
          password !== undefined && { auth: { username, password } }),
        ...(tls !== undefined && { tls: { ...tls } as { ca?: string; rejectUnauthorized?: boolean } }),
      });
    });
  }

  /** @internal */
  protected override async send(
    client: Client,
    lines: SearchBody[],
    signal: AbortSignal,
  ): Promise<RawAnswer> {
    const options = {
      asStream: true,
      meta: true as const,
      signal,
      headers: { "accept-encoding": "identity" },
    };
    const { statusCode, headers, body } = await client.msearch(
      { index: this.index, searches: lines },
      options,
    );
    return { status: statusCode ?? 0, headers, body: body as unknown as AsyncIterable<Uint8Array> };
  }

  /** @internal */
  protected override knn(field: string, vector: number[], topK: number, candidates: number): SearchBody {
    return { knn: { field, query_vector: vector, k: topK, num_candidates: candidates } };
  }
}

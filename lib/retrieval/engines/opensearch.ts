import type { Client } from "@opensearch-project/opensearch";
import { z } from "zod";
import { onAbort } from "../../abort.js";
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

/** Settings of {@link OpenSearchRetriever}. The default of `password` is the environment variable `HINDSEARCH_OPENSEARCH_PASSWORD`. */
export interface OpenSearchRetrieverOptions extends LuceneOptions {}

const Options = z.strictObject(luceneShape).refine(needsEmbedding.check, needsEmbedding.message);

/**
 * Searches an index of OpenSearch, by BM25 or vectors. Needs the optional package `@opensearch-project/opensearch`, loaded
 * on first use; its own retries, sniffing and compression are off. Otherwise as {@link ElasticsearchRetriever}.
 */
export class OpenSearchRetriever extends LuceneRetriever<Client> {
  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: OpenSearchRetrieverOptions) {
    const given = parseOptions(Options, options, "OpenSearchRetriever");
    const password = given.password ?? (process.env.HINDSEARCH_OPENSEARCH_PASSWORD || undefined);
    const { url, username, tls, concurrency, timeoutMs } = given;
    super("OpenSearch", { ...given, password }, [], async () => {
      const { Client } = await loadOptional(
        "OpenSearchRetriever",
        ["@opensearch-project/opensearch@^3.5.0"],
        () => import("@opensearch-project/opensearch"),
      );
      return new Client({
        node: url,
        maxRetries: 0,
        requestTimeout: timeoutMs,
        agent: { maxSockets: concurrency, keepAlive: true },
        ...(username !== undefined && password !== undefined && { auth: { username, password } }),
        ...(tls !== undefined && { ssl: { ...tls } as { ca?: string; rejectUnauthorized?: boolean } }),
      });
    });
  }

  /** @internal */
  protected override async send(
    client: Client,
    lines: SearchBody[],
    signal: AbortSignal,
  ): Promise<RawAnswer> {
    const options = { asStream: true, headers: { "accept-encoding": "identity" } };
    const request = client.msearch({ index: this.index, body: lines }, options);
    const body = { destroy: () => request.abort() };
    // The client knows no signals.
    onAbort(signal, () => body.destroy());
    const answer = await request;
    const stream = answer.body as unknown as AsyncIterable<Uint8Array> & { destroy(): void };
    body.destroy = () => stream.destroy();
    return { status: answer.statusCode ?? 0, headers: answer.headers as RawAnswer["headers"], body: stream };
  }

  /** @internal */
  protected override knn(field: string, vector: number[], topK: number): SearchBody {
    return { query: { knn: { [field]: { vector, k: topK } } } };
  }
}

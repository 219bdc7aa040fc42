import { z } from "zod";
import { connectionFailure } from "../../network/connection-failure.js";
import { type AnswerLimits, type RawAnswer, readJsonAnswer } from "../../network/json-answer.js";
import { count, endpoint } from "../../network/options.js";
import { addressOf } from "../../network/post-json.js";
import { AttemptError, isRetryableStatus } from "../../network/retry.js";
import { foreignReason, requestSecrets, Scrubber } from "../../network/secrets.js";
import { checkCount, parseAnswer } from "../answer.js";
import type { EmbeddingModel } from "../embedding/embedding-model.js";
import type { Passage } from "../passage.js";
import { type QueryOutcome, type RemoteOptions, RemoteRetriever, remoteShape } from "../remote.js";
import { embeddingModel, queryVectors } from "./query-vectors.js";
import { type EngineTls, tls } from "./tls.js";

/** How an index of Elasticsearch or OpenSearch is searched. */
export type LuceneSearch =
  | {
      /** BM25 over the fields as if they were one (`multi_match` of type `cross_fields`; any word counts). */
      kind: "match";
      /** Default: the fields of title and text. Those analysed alike count as one. */
      fields?: readonly string[] | undefined;
    }
  | {
      /** Approximate nearest neighbours. */
      kind: "knn";
      /** The vector field. Default `"embedding"`. */
      field?: string | undefined;
      /** Neighbours that each shard looks at, at least topK. Default 100. Elasticsearch only; OpenSearch sets it per index. */
      candidates?: number | undefined;
    };

/** The fields of a passage in a document's source. Its id is the document's. */
export interface LuceneFields {
  /** Default `"title"`; a document may lack it. */
  title?: string | undefined;
  /** Default `"text"`; a document without it is an error. */
  text?: string | undefined;
}

/** Settings that Elasticsearch and OpenSearch share. */
export interface LuceneOptions extends RemoteOptions {
  /** Address of the cluster, e.g. `https://localhost:9200`; without user and password. */
  url: string;
  /** Index, alias, or pattern like `wiki-*`. */
  index: string;
  /** User, for basic authentication. */
  username?: string | undefined;
  /** The user's password, a secret. */
  password?: string | undefined;
  /** For https. */
  tls?: EngineTls | undefined;
  /** Where a passage's parts are. */
  fields?: LuceneFields | undefined;
  /** Default `{ kind: "match" }`. */
  search?: LuceneSearch | undefined;
  /** The model of a knn search, which needs it. It stays the caller's. */
  embedding?: EmbeddingModel | undefined;
  /** Most bytes of a response. Default 16 MiB. */
  maxResponseBytes?: number | undefined;
}

const field = z.string().min(1);
/** Of {@link LuceneOptions}. */
export const luceneShape = {
  url: endpoint,
  index: z.string().regex(/^[^\s/\\?#"<>|]+$/, "is no name of an index"),
  username: z.string().min(1).optional(),
  password: z.string().min(1).optional(),
  tls: tls.optional(),
  fields: z.strictObject({ title: field.default("title"), text: field.default("text") }).prefault({}),
  search: z
    .discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("match"), fields: z.array(field).min(1).optional() }),
      z.strictObject({
        kind: z.literal("knn"),
        field: field.default("embedding"),
        candidates: count.default(100),
      }),
    ])
    .default({ kind: "match" }),
  embedding: embeddingModel.optional(),
  maxResponseBytes: count.default(16 * 2 ** 20),
  ...remoteShape,
};
/** {@link LuceneOptions} with their defaults. */
export type CheckedLuceneOptions = z.output<z.ZodObject<typeof luceneShape>>;

/** A search by vector needs something that makes vectors. */
export const needsEmbedding = {
  check: ({ search, embedding }: Pick<CheckedLuceneOptions, "search" | "embedding">) =>
    search.kind !== "knn" || embedding !== undefined,
  message: { path: ["embedding"], message: "a knn search needs one" },
};

/** A client of the ecosystem, as far as both are alike. */
export interface LuceneClient {
  close(): Promise<void>;
}

/** The body of one search. */
export type SearchBody = Record<string, unknown>;

const Hit = z.object({
  _id: z.string(),
  _score: z.number().nullish(),
  _source: z.record(z.string(), z.unknown()).optional(),
});
const Found = z.object({
  timed_out: z.boolean().optional(),
  _shards: z.object({ failed: z.number().optional() }).optional(),
  hits: z.object({ hits: z.array(Hit) }),
});
const Failed = z.object({
  status: z.number().optional(),
  error: z.union([z.string(), z.object({ type: z.string().optional(), reason: z.string().nullish() })]),
});
const Response = z.object({ responses: z.array(z.union([Failed, Found])) });

/** Errors of the clients that no other attempt avoids. */
const MISTAKES: readonly string[] = ["ConfigurationError", "ProductNotSupportedError"];

/** What Elasticsearch and OpenSearch have in common: `_msearch`, with its own status for each search. */
export abstract class LuceneRetriever<Client extends LuceneClient> extends RemoteRetriever {
  /** Index, alias, or pattern. @internal */
  protected readonly index: string;
  readonly #options: CheckedLuceneOptions;
  readonly #limits: AnswerLimits;
  readonly #connect: () => Promise<Client>;
  #client: Promise<Client> | undefined;

  /**
   * @param engine - For messages.
   * @param options - Checked settings.
   * @param secrets - Besides the password.
   * @param connect - Makes the ecosystem's client; called once, at the first search.
   */
  protected constructor(
    engine: string,
    options: CheckedLuceneOptions,
    secrets: readonly (string | undefined)[],
    connect: () => Promise<Client>,
  ) {
    const { url, index, password, maxResponseBytes } = options;
    const all = [password, ...secrets, ...requestSecrets({ url })];
    super(`${engine} index ${index} at ${addressOf(url)}`, options, all);
    this.index = index;
    this.#connect = connect;
    this.#options = options;
    this.#limits = { maxResponseBytes, scrubber: new Scrubber(all) };
  }

  /**
   * Sends one `_msearch`, without retries.
   *
   * @param lines - Header and body of each search, in turns.
   * @throws The client's errors.
   */
  protected abstract send(client: Client, lines: SearchBody[], signal: AbortSignal): Promise<RawAnswer>;

  /** The part of a search's body that finds the nearest neighbours of a vector. */
  protected abstract knn(field: string, vector: number[], topK: number, candidates: number): SearchBody;

  /** @internal */
  protected override async disconnect(): Promise<void> {
    await (await this.#client?.catch(() => undefined))?.close();
  }

  /** @internal */
  protected override async ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<QueryOutcome[]> {
    const bodies = await this.#bodies(queries, topK, signal);
    const answer = await this.#exchange(
      bodies.flatMap((body) => [{}, body]),
      signal,
    );
    const form = '{"responses": [{"hits": {"hits": [{"_id", "_score", "_source"}]}}]}';
    const { responses } = parseAnswer(Response, answer, "_msearch", form);
    checkCount(responses.length, queries.length, "_msearch");
    return responses.map((response) => this.#outcome(response));
  }

  async #bodies(queries: readonly string[], topK: number, signal: AbortSignal): Promise<SearchBody[]> {
    const { search, embedding, fields } = this.#options;
    const common = { size: topK, _source: [fields.title, fields.text] };
    if (search.kind === "match") {
      const over = search.fields ?? [fields.title, fields.text];
      return queries.map((query) => ({
        ...common,
        query: { multi_match: { query, type: "cross_fields", operator: "or", fields: over } },
      }));
    }
    const vectors = await queryVectors(embedding as EmbeddingModel, queries, signal);
    const candidates = Math.max(topK, search.candidates);
    return vectors.map((vector) => ({ ...common, ...this.knn(search.field, [...vector], topK, candidates) }));
  }

  /** Without a cause: the clients' errors hold the request and its headers. */
  async #exchange(lines: SearchBody[], signal: AbortSignal): Promise<unknown> {
    try {
      this.#client ??= this.#connect();
      return await readJsonAnswer(await this.send(await this.#client, lines, signal), this.#limits);
    } catch (error) {
      if (error instanceof AttemptError || (error as { code?: unknown }).code === "DEPENDENCY_MISSING")
        throw error;
      const { name } = error as Error;
      const { message, retryable } = MISTAKES.includes(name)
        ? { message: `${name}: ${(error as Error).message}`, retryable: false }
        : connectionFailure(error);
      throw new AttemptError(foreignReason(this.#limits.scrubber.scrub(message)), { retryable });
    }
  }

  #outcome(response: z.output<typeof Found> | z.output<typeof Failed>): QueryOutcome {
    if ("error" in response) {
      const { status = 500, error } = response;
      const what = typeof error === "string" ? error : [error.type, error.reason].filter(Boolean).join(": ");
      const message = `status ${status}: ${this.#limits.scrubber.excerpt(what)}`;
      return new AttemptError(message, { retryable: isRetryableStatus(status), status });
    }
    const { timed_out, _shards, hits } = response;
    // Passages of the shards that did answer: an outage in part, which must not look like a result.
    if (timed_out || (_shards?.failed ?? 0) > 0) {
      const what = timed_out ? "the search timed out in the cluster" : `${_shards?.failed} shards failed`;
      return new AttemptError(what, { retryable: true });
    }
    const { fields } = this.#options;
    const passages: Passage[] = [];
    for (const { _id, _score, _source = {} } of hits.hits) {
      const title = _source[fields.title] ?? "";
      const text = _source[fields.text];
      if (typeof text !== "string" || typeof title !== "string") {
        const wrong = typeof text === "string" ? fields.title : fields.text;
        return new AttemptError(`the field ${wrong} of document ${JSON.stringify(_id)} is no text`, {
          retryable: false,
        });
      }
      passages.push({ id: _id, title, text, ...(typeof _score === "number" && { score: _score }) });
    }
    return passages;
  }
}

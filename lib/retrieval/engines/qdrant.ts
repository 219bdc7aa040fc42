import type { QdrantClient } from "@qdrant/js-client-rest";
import type { Dispatcher } from "undici";
import { z } from "zod";
import { connectionFailure } from "../../network/connection-failure.js";
import { hearing, limitedAgent, type ResponseHead } from "../../network/limited-agent.js";
import { count, endpoint, parseOptions } from "../../network/options.js";
import { AttemptError, isRetryableStatus, parseRetryAfter } from "../../network/retry.js";
import { foreignReason, Scrubber } from "../../network/secrets.js";
import { loadOptional } from "../../optional-package.js";
import { checkCount, parseAnswer } from "../answer.js";
import type { EmbeddingModel } from "../embedding/embedding-model.js";
import type { Passage } from "../passage.js";
import { type RemoteOptions, RemoteRetriever, remoteShape } from "../remote.js";
import { embeddingModel, queryVectors } from "./query-vectors.js";

/** The fields of a passage in a point's payload. */
export interface QdrantFields {
  /** Default: the point's own id. */
  id?: string | undefined;
  /** Default `"title"`; a point may lack it. */
  title?: string | undefined;
  /** Default `"text"`; a point without it is an error. */
  text?: string | undefined;
}

/** Settings of {@link QdrantRetriever}. */
export interface QdrantRetrieverOptions extends RemoteOptions {
  /** Address of the REST interface, e.g. `http://localhost:6333`; the port is 6333 if none is named. */
  url: string;
  /** Default: the environment variable `HINDSEARCH_QDRANT_API_KEY`, else nothing. */
  apiKey?: string | undefined;
  /** The collection, with a payload on each point. */
  collection: string;
  /** Which of a collection's named vectors is searched. Default: its only one. */
  vector?: string | undefined;
  /** Where a passage's parts are. */
  fields?: QdrantFields | undefined;
  /** The model that the points were embedded with. It stays the caller's. */
  embedding: EmbeddingModel;
  /** Most bytes of a response. Default 16 MiB. */
  maxResponseBytes?: number | undefined;
}

const field = z.string().min(1);
/** Schema of {@link QdrantRetrieverOptions}. @internal */
export const qdrantShape = {
  url: endpoint,
  apiKey: z.string().min(1).optional(),
  collection: z.string().regex(/^[^/\\?#]{1,255}$/, "is no name of a collection"),
  vector: field.optional(),
  fields: z
    .strictObject({ id: field.optional(), title: field.default("title"), text: field.default("text") })
    .prefault({}),
  embedding: embeddingModel,
  maxResponseBytes: count.default(16 * 2 ** 20),
  ...remoteShape,
};
const Options = z.strictObject(qdrantShape);

const Point = z.object({
  id: z.union([z.string(), z.number(), z.bigint()]),
  score: z.number(),
  payload: z.record(z.string(), z.unknown()).nullish(),
});
const Response = z.object({ result: z.array(z.object({ points: z.array(Point) })) });
const FORM = '{"result": [{"points": [{"id", "score", "payload"}]}]}';

/**
 * Searches a collection of Qdrant for the nearest neighbours of the query's vector. Needs the optional package
 * `@qdrant/js-client-rest`, loaded on first use; its own time-outs and its check of versions are off.
 */
export class QdrantRetriever extends RemoteRetriever {
  readonly #options: z.output<typeof Options>;
  readonly #agent: Dispatcher;
  readonly #scrubber: Scrubber;
  readonly #apiKey: string | undefined;
  #client: Promise<QdrantClient> | undefined;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: QdrantRetrieverOptions) {
    const checked = parseOptions(Options, options, "QdrantRetriever");
    const { url, collection, concurrency, maxResponseBytes } = checked;
    const apiKey = checked.apiKey ?? (process.env.HINDSEARCH_QDRANT_API_KEY || undefined);
    super(`Qdrant collection ${collection} at ${new URL(url).origin}`, checked, [apiKey]);
    this.#options = checked;
    this.#apiKey = apiKey;
    this.#scrubber = new Scrubber([this.#apiKey]);
    this.#agent = limitedAgent({ connections: concurrency, maxResponseBytes });
  }

  /** @internal */
  protected override async ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<Passage[][]> {
    const { collection, vector, fields, embedding } = this.#options;
    const { id, title, text } = fields;
    const vectors = await queryVectors(embedding, queries, signal);
    const searches = vectors.map((query) => ({
      query: [...query],
      limit: topK,
      with_payload: [title, text, ...(id === undefined ? [] : [id])],
      ...(vector !== undefined && { using: vector }),
    }));
    const answer = await this.#exchange({ collection_name: collection, searches }, signal);
    const { result } = parseAnswer(Response, answer, "POST /points/query/batch", FORM);
    checkCount(result.length, queries.length, "POST /points/query/batch");
    return result.map(({ points }) => points.map((point) => this.#passage(point)));
  }

  /** @internal */
  protected override async disconnect(): Promise<void> {
    await this.#agent.close();
  }

  /** Without a cause: the client's errors hold the request's headers. */
  async #exchange(
    request: { collection_name: string; searches: object[] },
    signal: AbortSignal,
  ): Promise<unknown> {
    this.#client ??= this.#connect();
    const client = await this.#client;
    // Through the client's typed requests, since its methods take neither a signal nor a redirect policy: fetch would
    // carry the key along to another host.
    let head: ResponseHead | undefined;
    const dispatcher = hearing(this.#agent, (heard) => {
      head = heard;
    });
    const init = {
      signal,
      redirect: "manual",
      headers: { "accept-encoding": "identity" },
      dispatcher,
    } as unknown as RequestInit;
    try {
      const { data } = await client.api().queryBatchPoints(request, init);
      if (typeof data !== "string") return data;
      throw new AttemptError(`the answer is not JSON: ${this.#scrubber.excerpt(data)}`, { retryable: true });
    } catch (error) {
      throw error instanceof AttemptError ? error : this.#failed(error, head);
    }
  }

  /** By the response itself: of a 429 the client keeps neither the status nor the time that the server asks to wait. */
  #failed(error: unknown, head: ResponseHead | undefined): AttemptError {
    if (error instanceof SyntaxError) {
      return new AttemptError("status 200, but the answer is not JSON", { retryable: true, status: 200 });
    }
    const { status = 200, headers = {} } = head ?? {};
    if (status >= 200 && status <= 299) {
      const { message, retryable } = connectionFailure(error);
      return new AttemptError(foreignReason(this.#scrubber.scrub(message)), { retryable });
    }
    if (status >= 300 && status <= 399) {
      const message = `status ${status}: the server redirects, and redirects are not followed; use the final address`;
      return new AttemptError(message, { retryable: false, status });
    }
    const { data = "" } = error as { data?: unknown };
    const text = typeof data === "string" ? data : JSON.stringify(data);
    const retryable = isRetryableStatus(status);
    const [retryAfter] = [headers["retry-after"]].flat();
    return new AttemptError(`status ${status}: ${this.#scrubber.excerpt(text)}`, {
      retryable,
      status,
      retryAfterMs: retryable ? parseRetryAfter(retryAfter) : undefined,
    });
  }

  #passage({ id, score, payload }: z.output<typeof Point>): Passage {
    const { fields } = this.#options;
    const title = payload?.[fields.title] ?? "";
    const text = payload?.[fields.text];
    const name = fields.id === undefined ? id : payload?.[fields.id];
    if (
      typeof text !== "string" ||
      typeof title !== "string" ||
      (typeof name !== "string" && Number.isNaN(Number(name)))
    ) {
      const wrong =
        typeof text !== "string" ? fields.text : typeof title !== "string" ? fields.title : fields.id;
      throw new AttemptError(`the payload field ${wrong} of point ${id} is no text`, { retryable: false });
    }
    return { id: String(name), title, text, score };
  }

  async #connect(): Promise<QdrantClient> {
    const { QdrantClient } = await loadOptional(
      "QdrantRetriever",
      ["@qdrant/js-client-rest@^1.15.0"],
      () => import("@qdrant/js-client-rest"),
    );
    const { url } = this.#options;
    const { protocol, hostname, pathname } = new URL(url);
    return new QdrantClient({
      host: hostname,
      port: restPort(url),
      https: protocol === "https:",
      ...(pathname !== "/" && { prefix: pathname.replace(/\/$/, "") }),
      // As a header: the option warns on the console when there is no TLS.
      ...(this.#apiKey !== undefined && { headers: { "api-key": this.#apiKey } }),
      timeout: Number.POSITIVE_INFINITY,
      checkCompatibility: false,
    });
  }
}

/**
 * The port that an address names, else 6333. `URL` leaves out the protocol's own port, even if it was named.
 *
 * @internal
 */
export function restPort(url: string): number {
  return Number(/^https?:\/\/(?:\[[^\]]*\]|[^/:?#]*):(\d+)/i.exec(url)?.[1] ?? 6333);
}

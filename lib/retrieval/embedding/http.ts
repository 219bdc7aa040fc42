import { z } from "zod";
import type { AbortOptions } from "../../abort.js";
import {
  type EndpointOptions,
  type EndpointStats,
  endpointShape,
  JsonEndpoint,
} from "../../network/json-endpoint.js";
import { count, parseOptions } from "../../network/options.js";
import { AttemptError } from "../../network/retry.js";
import { cutText } from "../cut.js";
import { closedError } from "../retriever.js";
import { parseOpenAIEmbeddings, parseTeiEmbeddings, parseTokenEmbeddings } from "./answers.js";
import { type EmbeddingModel, normalize, type TextRole } from "./embedding-model.js";

/** Settings of {@link HttpEmbedding}. */
export interface HttpEmbeddingOptions extends EndpointOptions {
  /**
   * What the endpoint speaks: `openai` is `POST /v1/embeddings` of any OpenAI-compatible server (vLLM, SGLang, ...),
   * `tei` is `POST /embed` of text-embeddings-inference. Default: by the end of the address, `/embeddings` or `/embed`.
   */
  dialect?: "openai" | "tei" | undefined;
  /** Which model; sent to OpenAI-compatible servers, and the name by which an index knows it. */
  model: string;
  /**
   * Put in front of every text. Default by the model's name, as its makers trained it: names with "e5" get `query: `
   * and `passage: `, names with "bge" and "en" an instruction for queries, others nothing.
   */
  prefixes?: Partial<Readonly<Record<TextRole, string | undefined>>> | undefined;
  /** Whether vectors are scaled to unit length, so that inner products are cosines. Default true. */
  normalize?: boolean | undefined;
  /**
   * How token vectors become one: `server` leaves it to the server; `mean` and `cls` (the first token) do it here, for
   * `POST /embed_all` of text-embeddings-inference. Default `server`.
   */
  pooling?: "server" | "mean" | "cls" | undefined;
  /** Length of the vectors: asked for from OpenAI-compatible servers, and checked. Default: whatever comes. */
  dimensions?: number | undefined;
  /** Most texts in one request. Default 32. */
  batchSize?: number | undefined;
  /**
   * Longer texts are cut to so many characters, prefix not counted; the server cuts further at its tokens. Default
   * 8,192.
   */
  maxTextLength?: number | undefined;
}

const prefix = z.string().max(4096).optional();
/** Schema of {@link HttpEmbeddingOptions}. @internal */
export const httpEmbeddingShape = {
  ...endpointShape,
  dialect: z.enum(["openai", "tei"]).optional(),
  model: z.string().min(1),
  prefixes: z.strictObject({ query: prefix, passage: prefix }).optional(),
  normalize: z.boolean().default(true),
  pooling: z.enum(["server", "mean", "cls"]).default("server"),
  dimensions: count.optional(),
  batchSize: count.default(32),
  maxTextLength: count.default(8192),
};
const Options = z.strictObject(httpEmbeddingShape);

/** Refusals that the size of a batch or one of its texts may cause. */
const BATCH_REFUSALS: readonly (number | undefined)[] = [400, 413, 422];

/**
 * An embedding model behind HTTP.
 *
 * Texts go out in batches, several at once. Attempts that time out, break off or answer 408, 409, 429, 5xx or something
 * that is no JSON are repeated; Retry-After is waited as told. A batch that is refused (400, 413, 422) is tried again
 * in halves. A server that keeps failing is left alone for `breakerOpenMs`. The key is by default that in the environment variable `HINDSEARCH_EMBEDDING_API_KEY`; redirects are not
 * followed, and secrets never appear in messages.
 */
export class HttpEmbedding implements EmbeddingModel {
  readonly name: string;
  readonly #options: z.output<typeof Options>;
  readonly #endpoint: JsonEndpoint;
  readonly #prefixes: Readonly<Record<TextRole, string>>;
  readonly #dialect: "openai" | "tei";

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: HttpEmbeddingOptions) {
    this.#options = parseOptions(Options, options, "HttpEmbedding");
    this.#endpoint = new JsonEndpoint(this.#options, "HINDSEARCH_EMBEDDING_API_KEY");
    this.name = this.#options.model;
    this.#prefixes = { ...defaultPrefixes(this.name), ...withoutUndefined(this.#options.prefixes ?? {}) };
    const isOpenAI = /\/embeddings\/?$/.test(new URL(this.#options.url).pathname);
    this.#dialect = this.#options.dialect ?? (isOpenAI ? "openai" : "tei");
  }

  /** See {@link EmbeddingModel.embed}. */
  async embed(
    texts: readonly string[],
    role: TextRole,
    { signal }: AbortOptions = {},
  ): Promise<Float32Array[]> {
    if (this.#endpoint.closed) throw closedError("HttpEmbedding");
    const { batchSize, maxTextLength } = this.#options;
    const inputs = texts.map((text) => this.#prefixes[role] + cutText(text, maxTextLength));
    const batches: Promise<Float32Array[]>[] = [];
    for (let start = 0; start < inputs.length; start += batchSize) {
      batches.push(this.#batch(inputs.slice(start, start + batchSize), signal));
    }
    try {
      return (await Promise.all(batches)).flat();
    } catch (cause) {
      throw this.#endpoint.failure("Embedding", cause);
    }
  }

  /** Figures for logs and panels. */
  stats(): EndpointStats {
    return this.#endpoint.stats();
  }

  /** Waits for the requests at work, then closes the connections. */
  async close(): Promise<void> {
    await this.#endpoint.close();
  }

  async #batch(inputs: string[], signal: AbortSignal | undefined): Promise<Float32Array[]> {
    const isDivisible = (cause: unknown) =>
      inputs.length > 1 && cause instanceof AttemptError && BATCH_REFUSALS.includes(cause.status);
    const read = (answer: unknown) => this.#read(answer, inputs.length);
    try {
      const request = this.#request(inputs);
      return await this.#endpoint.post(request, read, { signal }, (cause) => !isDivisible(cause));
    } catch (cause) {
      if (!isDivisible(cause)) throw cause;
      const half = inputs.length >>> 1;
      const first = await this.#batch(inputs.slice(0, half), signal);
      return [...first, ...(await this.#batch(inputs.slice(half), signal))];
    }
  }

  #request(inputs: string[]): unknown {
    const { normalize, model, dimensions } = this.#options;
    if (this.#dialect === "tei") return { inputs, normalize, truncate: true };
    // As base64 a vector is a quarter as long, and exact. A server that does not know the field sends numbers.
    const request = { model, input: inputs, encoding_format: "base64" };
    return dimensions === undefined ? request : { ...request, dimensions };
  }

  #read(answer: unknown, texts: number): Float32Array[] {
    const { pooling, normalize: unit, dimensions } = this.#options;
    const vectors =
      pooling !== "server"
        ? parseTokenEmbeddings(answer, texts, pooling)
        : this.#dialect === "openai"
          ? parseOpenAIEmbeddings(answer, texts)
          : parseTeiEmbeddings(answer, texts);
    const expected = dimensions ?? vectors[0]?.length;
    const other = vectors.find(({ length }) => length !== expected);
    if (other !== undefined) {
      const message = `a vector of ${other.length} numbers where ${expected} were expected`;
      throw new AttemptError(message, { retryable: false });
    }
    return unit ? vectors.map(normalize) : vectors;
  }
}

/** What models of two families were trained with; the reference retriever of Search-R1 goes by the name too. */
function defaultPrefixes(model: string): Record<TextRole, string> {
  const name = model.toLowerCase();
  if (name.includes("e5")) return { query: "query: ", passage: "passage: " };
  if (name.includes("bge") && name.includes("en")) {
    return { query: "Represent this sentence for searching relevant passages: ", passage: "" };
  }
  return { query: "", passage: "" };
}

function withoutUndefined(prefixes: { query?: string | undefined; passage?: string | undefined }) {
  return Object.fromEntries(Object.entries(prefixes).filter(([, text]) => text !== undefined));
}

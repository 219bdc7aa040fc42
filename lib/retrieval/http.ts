import { z } from "zod";
import { count, endpoint, headers, parseOptions } from "../network/options.js";
import { addressOf, type PostTarget, postJson, postTarget } from "../network/post-json.js";
import { parseFlashRag } from "./flashrag.js";
import type { Passage } from "./passage.js";
import { type RemoteOptions, RemoteRetriever, remoteShape } from "./remote.js";
import { parseSearchR1 } from "./search-r1.js";

/** Settings of {@link HttpRetriever}. */
export interface HttpRetrieverOptions extends RemoteOptions {
  /** Address of the endpoint, e.g. `http://127.0.0.1:8000/retrieve`; http or https, without user and password. */
  url: string;
  /**
   * What the endpoint speaks: `"search-r1"` is Search-R1's `POST /retrieve`, `"flashrag"` the `POST /batch_search` that
   * FlashRAG's retrievers are served with. Default `"search-r1"`.
   */
  dialect?: "search-r1" | "flashrag" | undefined;
  /** Sent as `Authorization: Bearer`. Default: the environment variable `HINDSEARCH_RETRIEVER_API_KEY`, else nothing. */
  apiKey?: string | undefined;
  /** Further request headers. Their values are treated as secrets. */
  headers?: Record<string, string> | undefined;
  /** Most bytes of a response. Default 8 MiB. */
  maxResponseBytes?: number | undefined;
}

/** Schema of {@link HttpRetrieverOptions}. @internal */
export const httpRetrieverShape = {
  url: endpoint,
  dialect: z.enum(["search-r1", "flashrag"]).default("search-r1"),
  apiKey: z.string().min(1).optional(),
  headers,
  maxResponseBytes: count.default(8 * 2 ** 20),
  ...remoteShape,
};
const Options = z.strictObject(httpRetrieverShape);

/** How a dialect asks, and reads what is answered. */
interface Dialect {
  request(queries: readonly string[], topK: number): unknown;
  parse(answer: unknown, queries: number, topK: number): Passage[][];
}

const DIALECTS: Readonly<Record<"search-r1" | "flashrag", Dialect>> = {
  "search-r1": {
    // Scores always: without, the reference server mixes up its answer for two queries and fails for all other numbers
    // but one.
    request: (queries, topK) => ({ queries, topk: topK, return_scores: true }),
    parse: parseSearchR1,
  },
  flashrag: {
    request: (queries, topK) => ({ query: queries, top_n: topK, return_score: true }),
    parse: parseFlashRag,
  },
};

/**
 * A client of the two HTTP contracts that search services for this kind of training speak: Search-R1's `POST /retrieve`
 * and the `POST /batch_search` of FlashRAG's.
 *
 * Batches, retries and time-outs are those of {@link RemoteRetriever}. 408, 409, 429, 5xx, broken connections and what is
 * no JSON may pass and are repeated; Retry-After is waited as told. Redirects are not followed. Secrets never appear in
 * messages.
 */
export class HttpRetriever extends RemoteRetriever {
  readonly #target: PostTarget;
  readonly #dialect: Dialect;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: HttpRetrieverOptions) {
    const checked = parseOptions(Options, options, "HttpRetriever");
    const target = postTarget(checked, "HINDSEARCH_RETRIEVER_API_KEY");
    super(addressOf(checked.url), checked, target.secrets);
    this.#dialect = DIALECTS[checked.dialect];
    this.#target = target;
  }

  /** @internal */
  protected override async ask(queries: readonly string[], topK: number, signal: AbortSignal) {
    const answer = await postJson(this.#target, this.#dialect.request(queries, topK), signal);
    return this.#dialect.parse(answer, queries.length, topK);
  }

  /** @internal */
  protected override disconnect(): Promise<void> {
    return this.#target.dispatcher.close();
  }
}

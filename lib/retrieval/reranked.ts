import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import {
  type EndpointOptions,
  type EndpointStats,
  endpointShape,
  JsonEndpoint,
} from "../network/json-endpoint.js";
import { count, parseOptions } from "../network/options.js";
import { AttemptError } from "../network/retry.js";
import { cutText } from "./cut.js";
import type { Passage } from "./passage.js";
import { checkSearch, closedError, type Retriever } from "./retriever.js";

/** Settings of {@link RerankedRetriever}. */
export interface RerankedRetrieverOptions extends EndpointOptions {
  /**
   * What the endpoint speaks: `tei` is `POST /rerank` of text-embeddings-inference, `cohere` the form of Cohere, Jina,
   * vLLM and SGLang. Default `cohere` if `model` is given, else `tei`.
   */
  dialect?: "tei" | "cohere" | undefined;
  /** Which model; sent in the `cohere` form, which needs it. */
  model?: string | undefined;
  /** Passages that the first search is asked for, for each query; at least what the caller wants. Default 50. */
  candidates?: number | undefined;
  /** Longer passages and queries are cut to so many characters for the model. Default 4,096. */
  maxTextLength?: number | undefined;
}

/** Schema of {@link RerankedRetrieverOptions}. @internal */
export const rerankedShape = {
  ...endpointShape,
  dialect: z.enum(["tei", "cohere"]).optional(),
  model: z.string().min(1).optional(),
  candidates: count.default(50),
  maxTextLength: count.default(4096),
};
const Options = z.strictObject(rerankedShape);

const Tei = z.array(z.object({ index: z.int().min(0), score: z.number() }));
const Cohere = z.object({
  results: z.array(z.object({ index: z.int().min(0), relevance_score: z.number() })),
});

/**
 * A retriever whose passages a cross-encoder behind HTTP puts in order: the first search finds candidates, the model
 * scores each against the query, and the best come back with the model's scores. Equal scores keep the order of the
 * first search.
 *
 * Retries, deadlines, the circuit breaker and secrets are handled as by {@link HttpEmbedding}; the key is by default that in
 * `HINDSEARCH_RERANKER_API_KEY`. A re-ranker that fails fails the search: the order of the first search is not what was
 * asked for.
 */
export class RerankedRetriever implements Retriever {
  readonly #retriever: Retriever;
  readonly #options: z.output<typeof Options>;
  readonly #endpoint: JsonEndpoint;
  readonly #dialect: "tei" | "cohere";

  /**
   * Does not connect yet.
   *
   * @param retriever - Finds the candidates. `close()` closes it too.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(retriever: Retriever, options: RerankedRetrieverOptions) {
    this.#retriever = retriever;
    this.#options = parseOptions(Options, options, "RerankedRetriever");
    this.#dialect = this.#options.dialect ?? (this.#options.model === undefined ? "tei" : "cohere");
    if (this.#dialect === "cohere" && this.#options.model === undefined) {
      const message = "Wrong options of RerankedRetriever: the cohere form needs a model.";
      throw new HindsearchError("INVALID_ARGUMENT", message);
    }
    this.#endpoint = new JsonEndpoint(this.#options, "HINDSEARCH_RERANKER_API_KEY");
  }

  /** See {@link Retriever.search}. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#endpoint.closed) throw closedError("RerankedRetriever");
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const candidates = await this.#retriever.search(
      queries,
      Math.max(topK, this.#options.candidates),
      signal === undefined ? {} : { signal },
    );
    const ranked = candidates.map((list, i) => this.#rank(queries[i] as string, list, topK, signal));
    return Promise.all(ranked);
  }

  /** Of the re-ranker, for logs and panels. */
  stats(): EndpointStats {
    return this.#endpoint.stats();
  }

  /** Of the retriever behind it. */
  state(): unknown {
    return this.#retriever.state?.();
  }

  /** Of the retriever behind it. */
  restore(state: unknown): void {
    this.#retriever.restore?.(state);
  }

  /** Waits for the requests at work, then closes the connections and the first retriever. */
  async close(): Promise<void> {
    await this.#endpoint.close();
    await this.#retriever.close?.();
  }

  async #rank(
    query: string,
    passages: readonly Passage[],
    topK: number,
    signal: AbortSignal | undefined,
  ): Promise<Passage[]> {
    if (passages.length === 0) return [];
    const { maxTextLength } = this.#options;
    const texts = passages.map(({ title, text }) =>
      cutText(title === "" ? text : `${title}\n${text}`, maxTextLength),
    );
    const request = this.#request(cutText(query, maxTextLength), texts);
    try {
      const scores = await this.#endpoint.post(request, (answer) => this.#read(answer, texts.length), {
        signal,
      });
      const scored = passages.map((passage, i) => ({ ...passage, score: scores[i] as number }));
      return scored.sort((x, y) => y.score - x.score).slice(0, topK);
    } catch (cause) {
      throw this.#endpoint.failure("Re-ranking", cause);
    }
  }

  #request(query: string, texts: string[]): unknown {
    if (this.#dialect === "tei") return { query, texts, raw_scores: false, truncate: true };
    return { model: this.#options.model, query, documents: texts, top_n: texts.length };
  }

  /** The score of each text, in their order. */
  #read(answer: unknown, texts: number): number[] {
    const parsed = this.#dialect === "tei" ? Tei.safeParse(answer) : Cohere.safeParse(answer);
    if (!parsed.success) {
      const { path, message } = parsed.error.issues[0] as z.core.$ZodIssue;
      throw malformed(`${path.join(".") || "the answer"}: ${message}`);
    }
    const entries = Array.isArray(parsed.data)
      ? parsed.data.map(({ index, score }) => [index, score] as const)
      : parsed.data.results.map(({ index, relevance_score }) => [index, relevance_score] as const);
    if (entries.length !== texts) throw malformed(`${entries.length} scores for ${texts} texts`);
    const scores = new Map(entries);
    for (let i = 0; i < texts; i++) if (!scores.has(i)) throw malformed(`no score for text ${i}`);
    return Array.from({ length: texts }, (_, i) => scores.get(i) as number);
  }
}

function malformed(problem: string): AttemptError {
  return new AttemptError(`the answer does not rank the passages: ${problem}`, {
    retryable: false,
    status: 200,
  });
}

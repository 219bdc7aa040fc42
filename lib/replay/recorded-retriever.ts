import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { parseOptions } from "../network/options.js";
import { cutText } from "../retrieval/cut.js";
import type { Passage } from "../retrieval/passage.js";
import { checkSearch, type Retriever } from "../retrieval/retriever.js";
import type { ReplayCache } from "./replay-cache.js";

/** Options of {@link recordedRetriever}. */
export interface RecordedRetrieverOptions {
  /** What passages depend on beside query and number: corpus, engine, parameters. */
  identity: string;
}

const State = z.object({ run: z.string().min(1), state: z.unknown() });

const Passages: z.ZodType<Passage[]> = z.array(
  z.object({ id: z.string(), title: z.string(), text: z.string(), score: z.number().exactOptional() }),
);

/**
 * A retriever with a memory. Passages are recorded by query, `topK` and the identity given. Failed searches are not
 * recorded: a failure is of its moment, and a record of it would be an outage for ever. In mode `replay` a query without
 * a record fails with `RETRIEVAL_FAILED`, for good, so that no rollout waits for it.
 *
 * Queries without a record go to the engine together, as they would without a memory.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` without an identity.
 */
export function recordedRetriever(
  retriever: Retriever,
  cache: ReplayCache,
  { identity }: RecordedRetrieverOptions,
): Retriever {
  if (typeof identity !== "string" || identity === "") {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "recordedRetriever needs an identity that names corpus, engine and parameters, e.g. wiki18-bm25.",
    );
  }
  return new RecordedRetriever(retriever, cache, identity);
}

class RecordedRetriever implements Retriever {
  constructor(
    private readonly retriever: Retriever,
    private readonly cache: ReplayCache,
    private readonly identity: string,
  ) {}

  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const keys = queries.map((query) => [this.identity, topK, query]);
    const search = (indices: readonly number[]) =>
      this.retriever.search(
        indices.map((i) => queries[i] as string),
        topK,
        { signal },
      );
    const answers = await this.cache.answers("retrieval", keys, search);
    throwIfAborted(signal);
    return answers.map((found, i) => {
      if (found !== undefined) return Passages.parse(found.answer);
      const query = JSON.stringify(cutText(queries[i] as string, 80));
      const message = `There is no record of a search for ${query} to replay.`;
      throw new HindsearchError("RETRIEVAL_FAILED", message, { retryable: false });
    });
  }

  state(): unknown {
    return { run: this.cache.run, state: this.retriever.state?.() ?? null };
  }

  restore(state: unknown): void {
    const parsed = parseOptions(State, state, "recordedRetriever.restore");
    if (parsed.state !== null) this.retriever.restore?.(parsed.state);
    this.cache.goOn(parsed.run);
  }

  async close(): Promise<void> {
    await this.retriever.close?.();
  }
}

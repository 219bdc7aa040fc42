import { availableParallelism } from "node:os";
import type { AbortOptions } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import type { EmbeddingModel } from "../embedding/embedding-model.js";

/** By words, by vectors, or by both. */
export type SearchMode = "lexical" | "dense" | "hybrid";

/** Settings of reciprocal rank fusion. */
export interface FusionOptions {
  /** The constant of its formula: the larger, the less the first ranks stand out; at least 0. Default 60. */
  k?: number | undefined;
  /** How deep each list is; at least 1. Default 100. */
  depth?: number | undefined;
}

/** Settings of {@link CorpusIndex.open}. */
export interface CorpusIndexOptions extends AbortOptions {
  /** Default `hybrid` if `embedding` is given, else `lexical`. */
  mode?: SearchMode | undefined;
  /**
   * The model that the index was built with; needed for dense and hybrid search. It stays the caller's: `close()` does
   * not close it.
   */
  embedding?: EmbeddingModel | undefined;
  /** What the manifest's checksum must be, e.g. from {@link corpusChecksum}: an index of anything else is refused. */
  checksum?: string | undefined;
  /**
   * Searches of the engine at work at the same time, the others wait; at least 1. Default `max(4, 2 * cores)`. The
   * engine has no limit of its own, and hundreds at once make each of them slow.
   */
  concurrency?: number | undefined;
  /**
   * Partitions of the vector index that a query looks into: more find more and take longer. Default: a third of them.
   */
  probes?: number | undefined;
  /** Of hybrid search. */
  fusion?: FusionOptions | undefined;
  /** As in {@link IndexBuildOptions.storageOptions}. */
  storageOptions?: Record<string, string> | undefined;
}

/** With the defaults filled in. */
export function checkedOptions(options: CorpusIndexOptions) {
  const { embedding, mode = embedding === undefined ? "lexical" : "hybrid", probes, fusion } = options;
  const { concurrency = Math.max(4, 2 * availableParallelism()) } = options;
  const { k = 60, depth = 100 } = fusion ?? {};
  const wrong = (message: string) => new HindsearchError("INVALID_ARGUMENT", message);
  if (!["lexical", "dense", "hybrid"].includes(mode)) {
    throw wrong(`mode must be "lexical", "dense" or "hybrid", not ${JSON.stringify(mode)}.`);
  }
  if (mode !== "lexical" && embedding === undefined) {
    throw wrong(
      `mode ${mode} needs the embedding model that the index was built with; pass it as embedding.`,
    );
  }
  for (const [name, value] of Object.entries({ concurrency, probes, "fusion.depth": depth })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) continue;
    throw wrong(`${name} must be a whole number of at least 1, not ${value}.`);
  }
  if (!(k >= 0 && k < Number.POSITIVE_INFINITY)) {
    throw wrong(`fusion.k must be a finite number of at least 0, not ${k}.`);
  }
  return { mode, concurrency, probes, fusion: { k, depth } };
}

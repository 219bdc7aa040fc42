import PQueue from "p-queue";
import { type AbortOptions, abortable, throwIfAborted } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { plainAnalyzer } from "../analyzer.js";
import type { CorpusSource } from "../checksum.js";
import { cutText } from "../cut.js";
import { checkVectors, type EmbeddingModel } from "../embedding/embedding-model.js";
import { type Passage, parseContents } from "../passage.js";
import { checkSearch, closedError, type Retriever } from "../retriever.js";
import { buildIndex, type IndexBuildOptions } from "./build.js";
import { fuse } from "./fusion.js";
import { type IndexManifest, TEXT } from "./manifest.js";
import { type OpenIndex, openIndex } from "./open.js";
import type { CorpusIndexOptions } from "./open-options.js";
import { nearest, REFINE } from "./vector-index.js";

/** Longer queries are cut for the embedding model, in characters. No model looks at more. */
const MAX_EMBEDDED = 8192;

interface Row {
  id: string;
  contents: string;
  _score?: number;
  _distance?: number;
}

/**
 * The embedded search engine, for corpora from a folder of notes to tens of millions of passages: a LanceDB table on
 * disk or in an object store, searched on the engine's own threads. Needs the optional packages `@lancedb/lancedb` and
 * `apache-arrow`, loaded on first use.
 *
 * **Lexical** search is BM25 over title and text. k1 is 1.2 and b 0.75; the engine does not let them be set, so that
 * Pyserini's ranking with its k1 of 0.9 and b of 0.4 cannot be reproduced ({@link MemoryRetriever} can). With the
 * analyzer `plain` words are cut like {@link plainAnalyzer} cuts them but without Unicode normalisation, and the
 * results are those of {@link MemoryRetriever} with the same constants up to near ties.
 *
 * **Dense** search ranks by inner product with the query's vector: exact in small indices, else approximate, with the
 * recall that was measured at the build in `manifest.vectorIndex`.
 *
 * **Hybrid** search is reciprocal rank fusion (Cormack et al. 2009) of the two: a passage scores the sum of `1 / (k +
 * rank)` over the lists that it is in, ranks counted from 1; of equal scores the one with the better lexical rank comes
 * first.
 */
export class CorpusIndex implements Retriever {
  /** What the index says about itself. */
  readonly manifest: Readonly<IndexManifest>;
  readonly #parts: OpenIndex;
  readonly #queue: PQueue;
  #closed: Promise<void> | undefined;

  private constructor(parts: OpenIndex) {
    this.#parts = parts;
    this.manifest = parts.manifest;
    this.#queue = new PQueue({ concurrency: parts.concurrency });
  }

  /**
   * Builds an index in a process of its own, so that neither the event loop nor a hanging build holds the caller up.
   *
   * A build that is killed, aborted or fails can be gone on with: the same call reads the corpus again but embeds and
   * writes only what is missing. The lexical index is then the same as that of an undisturbed build. A complete index
   * of the same corpus and settings is left as it is, so the call may stand at the beginning of every script.
   *
   * @param source - Paths as {@link readCorpus} takes them, or the passages; their ids must be distinct, and for a
   * build to go on they must come in the same order.
   * @param folder - Where the index goes: a folder that is empty or missing, or an `s3://`, `gs://` or `az://` address.
   * @param options - Analyzer, vectors, limits, progress, abort.
   * @returns What the index says about itself.
   * @throws {@link HindsearchError} `DEPENDENCY_MISSING`; `INVALID_ARGUMENT` on wrong options or a folder with other
   * things in it; `INDEX_MISMATCH` if an index of another corpus, model or settings is there; `INVALID_DATA` on a
   * damaged or empty corpus or repeated ids; `IO`; `RETRIEVAL_FAILED` if the engine or the embedding model fails or
   * hangs; `ABORTED`.
   */
  static async build(
    source: CorpusSource,
    folder: string,
    options: IndexBuildOptions = {},
  ): Promise<IndexManifest> {
    return buildIndex(source, folder, options);
  }

  /**
   * Opens an index and reads what searches need into memory, so that the first one is as fast as the others.
   *
   * @param folder - What {@link CorpusIndex.build} made.
   * @param options - How to search.
   * @throws {@link HindsearchError} `DEPENDENCY_MISSING`; `INVALID_DATA` if there is no complete index;
   * `INDEX_MISMATCH` if it is one of another corpus, another embedding model (by name, length of the vectors, and the
   * vector of a test sentence) or a newer version, or has no vectors; `INVALID_ARGUMENT`; `RETRIEVAL_FAILED` if the
   * engine cannot open it or the embedding model does not answer; `ABORTED`.
   */
  static async open(folder: string, options: CorpusIndexOptions = {}): Promise<CorpusIndex> {
    return new CorpusIndex(await openIndex(folder, options));
  }

  /** How many passages the index holds. */
  get size(): number {
    return this.manifest.passages;
  }

  /** See {@link Retriever.search}. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#closed !== undefined) throw closedError("CorpusIndex");
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const wordy = queries.filter((query) => plainAnalyzer(query).length > 0);
    const vectors = this.#parts.mode === "lexical" ? [] : await this.#embed(wordy, signal);
    const found = wordy.map((query, i) => this.#searchOne(query, vectors[i], topK, signal));
    const lists = await abortable(Promise.all(found), signal);
    const remaining = lists.values();
    return queries.map((query) =>
      plainAnalyzer(query).length > 0 ? (remaining.next().value as Passage[]) : [],
    );
  }

  /** Waits for the searches at work, then closes the index. */
  async close(): Promise<void> {
    this.#closed ??= this.#queue.onIdle().then(() => {
      this.#parts.table.close();
      this.#parts.connection.close();
    });
    await this.#closed;
  }

  async #embed(queries: string[], signal: AbortSignal | undefined): Promise<Float32Array[]> {
    const embedding = this.#parts.embedding as EmbeddingModel;
    if (queries.length === 0) return [];
    const texts = queries.map((query) => cutText(query, MAX_EMBEDDED));
    const vectors = await embedding.embed(texts, "query", { signal });
    checkVectors(vectors, texts.length, embedding.name, this.manifest.embedding?.dimensions);
    return vectors;
  }

  async #searchOne(
    query: string,
    vector: Float32Array | undefined,
    topK: number,
    signal: AbortSignal | undefined,
  ): Promise<Passage[]> {
    const { mode, fusion } = this.#parts;
    const run = (search: () => Promise<Passage[]>) =>
      this.#queue.add(() => {
        throwIfAborted(signal);
        return search();
      });
    const lexical = (limit: number) => run(() => this.#byWords(query, limit));
    const dense = (limit: number) => run(() => this.#byVector(vector as Float32Array, limit));
    if (mode === "lexical") return lexical(topK);
    if (mode === "dense") return dense(topK);
    const depth = Math.max(topK, fusion.depth);
    return fuse(await Promise.all([lexical(depth), dense(depth)]), fusion.k).slice(0, topK);
  }

  #byWords(query: string, limit: number): Promise<Passage[]> {
    return rows(
      this.#parts.table
        .query()
        .fullTextSearch(query, { columns: [TEXT.column] })
        .select(["id", TEXT.column, "_score"])
        .limit(limit)
        .toArray(),
    );
  }

  #byVector(vector: Float32Array, limit: number): Promise<Passage[]> {
    const { table, manifest, probes } = this.#parts;
    const query = nearest(table, vector, limit);
    if (manifest.vectorIndex === null) return rows(query.toArray());
    return rows(
      query
        .nprobes(probes ?? manifest.vectorIndex.probes)
        .refineFactor(REFINE)
        .toArray(),
    );
  }
}

async function rows(answer: Promise<Row[]>): Promise<Passage[]> {
  let found: Row[];
  try {
    found = await answer;
  } catch (cause) {
    const message = `The search engine failed: ${(cause as Error).message}.`;
    throw new HindsearchError("RETRIEVAL_FAILED", message, { cause });
  }
  return found.map(({ id, contents, _score, _distance }) => ({
    id,
    ...parseContents(contents),
    // The engine's distance of inner products is 1 minus the product.
    score: _score ?? 1 - (_distance as number),
  }));
}

import { availableParallelism } from "node:os";
import type { Connection, Table } from "@lancedb/lancedb";
import PQueue from "p-queue";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { plainAnalyzer } from "./analyzer.js";
import { buildLanceIndex, type IndexBuildOptions } from "./lance-build.js";
import { COLUMN, INDEX, readManifest, TABLE } from "./lance-format.js";
import { loadLance } from "./lance-package.js";
import { type Passage, parseContents } from "./passage.js";
import { checkSearch, closedError, type Retriever } from "./retriever.js";

/** Settings of {@link LanceRetriever}. */
export interface LanceRetrieverOptions {
  /**
   * Queries at work at the same time, the others wait; at least 1. Default `max(4, 2 * cores)`. The engine has no
   * limit of its own, and hundreds at once make each of them slow.
   */
  concurrency?: number;
}

/**
 * The embedded engine for corpora from thousands to millions of passages: BM25 over a LanceDB full-text index on disk,
 * searched on the engine's own threads. Needs the optional package `@lancedb/lancedb`, loaded on first use.
 *
 * k1 is 1.2 and b 0.75 (the engine's; it does not let them be set), words are cut like {@link plainAnalyzer} cuts
 * them but without Unicode normalisation, without stemming and without a stop list. On the same settings the results
 * are those of {@link MemoryRetriever} up to near ties.
 */
export class LanceRetriever implements Retriever {
  readonly #connection: Connection;
  readonly #table: Table;
  readonly #queue: PQueue;
  #closed: Promise<void> | undefined;

  private constructor(
    connection: Connection,
    table: Table,
    /** How many passages the index holds. */
    readonly size: number,
    concurrency: number,
  ) {
    this.#connection = connection;
    this.#table = table;
    this.#queue = new PQueue({ concurrency });
  }

  /**
   * Builds an index in a process of its own, so that neither the event loop nor a hanging build holds the caller up.
   * The folder appears when the index is complete; a build that fails or is aborted leaves nothing behind.
   *
   * @param folder - Where the index goes; must not exist or be empty.
   * @param corpus - Path of a corpus as {@link readCorpus} takes it, or the passages (written to disk beside the index
   * meanwhile). Ids are not checked for repetitions.
   * @param options - Progress, abort, and when to give up.
   * @throws {@link HindsearchError} `DEPENDENCY_MISSING`, `INVALID_ARGUMENT` if the folder is not empty,
   * `INVALID_DATA` on a damaged or empty corpus, `IO`, `RETRIEVAL_FAILED` if the engine fails or hangs, `ABORTED`.
   */
  static async build(
    folder: string,
    corpus: string | Iterable<Passage> | AsyncIterable<Passage>,
    options: IndexBuildOptions = {},
  ): Promise<void> {
    await buildLanceIndex(folder, corpus, options);
  }

  /**
   * Opens an index and reads it into memory, so that the first search is as fast as the others.
   *
   * @param folder - What {@link LanceRetriever.build} made.
   * @throws {@link HindsearchError} `DEPENDENCY_MISSING`, `INVALID_DATA` if the folder is no complete index,
   * `INVALID_ARGUMENT`, `RETRIEVAL_FAILED` if the engine cannot open it.
   */
  static async open(folder: string, options: LanceRetrieverOptions = {}): Promise<LanceRetriever> {
    const { concurrency = Math.max(4, 2 * availableParallelism()) } = options;
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      const message = `concurrency must be a whole number of at least 1, not ${concurrency}.`;
      throw new HindsearchError("INVALID_ARGUMENT", message);
    }
    const size = await readManifest(folder);
    const lance = await loadLance();
    try {
      const connection = await lance.connect(folder);
      const table = await connection.openTable(TABLE);
      await table.prewarmIndex(INDEX);
      return new LanceRetriever(connection, table, size, concurrency);
    } catch (cause) {
      throw new HindsearchError(
        "RETRIEVAL_FAILED",
        `The search engine cannot open the index at ${folder}: ${(cause as Error).message}. Build it again.`,
        { cause },
      );
    }
  }

  /** See {@link Retriever.search}. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#closed !== undefined) throw closedError("LanceRetriever");
    checkSearch(queries, topK);
    throwIfAborted(signal);
    const results = queries.map((query) =>
      this.#queue.add(() => {
        throwIfAborted(signal);
        return this.#searchOne(query, topK);
      }),
    );
    return abortable(Promise.all(results), signal);
  }

  /** Waits for the searches at work, then closes the index. */
  async close(): Promise<void> {
    this.#closed ??= this.#queue.onIdle().then(() => {
      this.#table.close();
      this.#connection.close();
    });
    await this.#closed;
  }

  async #searchOne(query: string, topK: number): Promise<Passage[]> {
    if (plainAnalyzer(query).length === 0) return [];
    let rows: { id: string; contents: string; _score: number }[];
    try {
      rows = await this.#table
        .query()
        .fullTextSearch(query, { columns: [COLUMN] })
        .select(["id", COLUMN, "_score"])
        .limit(topK)
        .toArray();
    } catch (cause) {
      throw new HindsearchError(
        "RETRIEVAL_FAILED",
        `The search engine failed: ${(cause as Error).message}.`,
        {
          cause,
        },
      );
    }
    return rows.map(({ id, contents, _score }) => ({ id, ...parseContents(contents), score: _score }));
  }
}

import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { type Analyzer, analyzePieces, plainAnalyzer } from "./analyzer.js";
import type { Passage } from "./passage.js";
import { type Postings, PostingsBuilder } from "./postings.js";
import { checkSearch, closedError, type Retriever } from "./retriever.js";
import { type Steps, TimeSlicer } from "./time-slice.js";

/** Postings scored between two chances for the event loop. */
const STEP = 16_384;

/** Settings of {@link MemoryRetriever}. */
export interface MemoryRetrieverOptions extends AbortOptions {
  /** How soon further occurrences of a term in a passage stop to count; at least 0. Default 0.9, as Search-R1's BM25. */
  k1?: number;
  /** How much longer passages are marked down; 0 to 1. Default 0.4, as Search-R1's BM25. */
  b?: number;
  /** Cuts passages and queries into terms. Default {@link plainAnalyzer}. */
  analyzer?: Analyzer;
}

/**
 * Exact BM25 over a corpus held in memory: for demos and tests, and the reference that larger engines are measured
 * against. Up to about a million passages.
 *
 * The score of passage d for a query is the sum, over the query's distinct terms, of
 * `idf * tf / (tf + k1 * (1 - b + b * length(d) / meanLength))` with `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`
 * (Lucene's form of Robertson et al. 1994: never negative). Title and text are indexed together, lengths are exact,
 * sums are in double precision. Equal scores keep the order of the corpus. A passage that shares no term with the
 * query is not found, so fewer than topK may come back. Queries of any length are scored in full.
 */
export class MemoryRetriever implements Retriever {
  readonly #passages: readonly Passage[];
  readonly #postings: Postings;
  readonly #analyzer: Analyzer;
  readonly #slicer: TimeSlicer;
  /** `k1 * (1 - b + b * length / meanLength)` per passage. */
  readonly #norms: Float64Array;
  /** Scratch of the search at work: score per passage, all 0 between searches. */
  readonly #scores: Float64Array;
  #closed = false;

  private constructor(
    passages: readonly Passage[],
    postings: Postings,
    slicer: TimeSlicer,
    { k1, b, analyzer }: { k1: number; b: number; analyzer: Analyzer },
  ) {
    this.#passages = passages;
    this.#postings = postings;
    this.#slicer = slicer;
    this.#analyzer = analyzer;
    this.#norms = new Float64Array(passages.length);
    this.#scores = new Float64Array(passages.length);
    let total = 0;
    for (const length of postings.lengths) total += length;
    const mean = Math.max(total / passages.length, Number.MIN_VALUE);
    for (const [d, length] of postings.lengths.entries()) this.#norms[d] = k1 * (1 - b + (b * length) / mean);
  }

  /**
   * Indexes a corpus without blocking the event loop.
   *
   * @param passages - The corpus, e.g. of {@link readCorpus}; ids must be distinct.
   * @param options - Settings.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong settings or a repeated id, `ABORTED`, and what reading
   * the corpus throws.
   */
  static async create(
    passages: Iterable<Passage> | AsyncIterable<Passage>,
    options: MemoryRetrieverOptions = {},
  ): Promise<MemoryRetriever> {
    const { k1 = 0.9, b = 0.4, analyzer = plainAnalyzer, signal } = options;
    if (!(k1 >= 0 && k1 < Number.POSITIVE_INFINITY)) {
      throw new HindsearchError("INVALID_ARGUMENT", `k1 must be a finite number of at least 0, not ${k1}.`);
    }
    if (!(b >= 0 && b <= 1)) {
      throw new HindsearchError("INVALID_ARGUMENT", `b must be from 0 to 1, not ${b}.`);
    }
    const slicer = new TimeSlicer();
    const builder = new PostingsBuilder();
    const kept: Passage[] = [];
    const ids = new Set<string>();
    for await (const passage of passages) {
      throwIfAborted(signal);
      if (ids.has(passage.id)) {
        throw new HindsearchError(
          "INVALID_ARGUMENT",
          `Two passages have the id ${JSON.stringify(passage.id)} (the second one is number ${kept.length}, counted from 0); ids must be distinct.`,
        );
      }
      ids.add(passage.id);
      kept.push(passage);
      const pieces = analyzePieces(`${passage.title}\n${passage.text}`, analyzer);
      for (const _ of builder.add(pieces)) {
        await slicer.turn();
        throwIfAborted(signal);
      }
    }
    const postings = await slicer.run(builder.build(), signal);
    return new MemoryRetriever(kept, postings, slicer, { k1, b, analyzer });
  }

  /** How many passages it holds. */
  get size(): number {
    return this.#passages.length;
  }

  /** See {@link Retriever.search}. */
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    if (this.#closed) throw closedError("MemoryRetriever");
    checkSearch(queries, topK);
    throwIfAborted(signal);
    return this.#slicer.run(this.#searchAll([...queries], topK), signal);
  }

  /** Later searches reject; searches that run still end. */
  async close(): Promise<void> {
    this.#closed = true;
  }

  *#searchAll(queries: readonly string[], topK: number): Steps<Passage[][]> {
    const results: Passage[][] = [];
    for (const query of queries) {
      results.push(yield* this.#searchOne(query, topK));
      yield;
    }
    return results;
  }

  *#searchOne(query: string, topK: number): Steps<Passage[]> {
    const { starts, documents, frequencies } = this.#postings;
    const scores = this.#scores;
    const norms = this.#norms;
    const found: number[] = [];
    let work = 0;
    try {
      for (const term of yield* this.#terms(query)) {
        const start = starts[term] as number;
        const end = starts[term + 1] as number;
        const df = end - start;
        const idf = Math.log1p((this.#passages.length - df + 0.5) / (df + 0.5));
        for (let posting = start; posting < end; posting++) {
          const d = documents[posting] as number;
          const tf = frequencies[posting] as number;
          const score = scores[d] as number;
          if (score === 0) found.push(d);
          scores[d] = score + (idf * tf) / (tf + (norms[d] as number));
          if (++work % STEP === 0) yield;
        }
      }
      return yield* this.#best(found, topK);
    } finally {
      for (const d of found) scores[d] = 0;
    }
  }

  /** The numbers of the query's known terms, each once. */
  *#terms(query: string): Steps<Set<number>> {
    const numbers = new Set<number>();
    for (const terms of analyzePieces(query, this.#analyzer)) {
      for (const term of terms) {
        const number = this.#postings.terms.get(term);
        if (number !== undefined) numbers.add(number);
      }
      yield;
    }
    return numbers;
  }

  /** The topK best of `found` by score, then by place in the corpus. */
  *#best(found: readonly number[], topK: number): Steps<Passage[]> {
    const scores = this.#scores;
    const before = (x: number, y: number) => {
      const difference = (scores[x] as number) - (scores[y] as number);
      return difference > 0 || (difference === 0 && x < y);
    };
    const best: number[] = [];
    for (let i = 0; i < found.length; i++) {
      if (i % STEP === STEP - 1) yield;
      const d = found[i] as number;
      if (best.length === topK && !before(d, best[topK - 1] as number)) continue;
      let low = 0;
      for (let high = best.length; low < high; ) {
        const middle = (low + high) >>> 1;
        if (before(best[middle] as number, d)) low = middle + 1;
        else high = middle;
      }
      best.splice(low, 0, d);
      if (best.length > topK) best.pop();
    }
    return best.map((d) => ({ ...(this.#passages[d] as Passage), score: scores[d] as number }));
  }
}

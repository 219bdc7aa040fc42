import PQueue from "p-queue";
import { abortable, onAbort, sleep, throwIfAborted } from "../abort.js";
import type { Passage } from "./passage.js";

/** What a batch gives for one query. */
export type Outcome = Passage[] | Error;

/** Answers distinct queries, in their order; never rejects. Ends early when the signal fires. */
export type AnswerBatch = (queries: string[], topK: number, signal: AbortSignal) => Promise<Outcome[]>;

/** Queries to be sent in one request. */
class Batch {
  readonly queries = new Set<string>();
  readonly controller = new AbortController();
  readonly created = performance.now();
  /** Searches that still want an answer; when none is left the request is aborted. */
  waiting = 0;
  /** Never rejects. */
  outcomes: Promise<ReadonlyMap<string, Outcome>> = Promise.resolve(new Map());

  constructor(readonly topK: number) {}
}

/**
 * Joins concurrent searches into batches of distinct queries, with a limit on batches at work. A batch takes queries
 * in until it is full or its turn has come, so that the busier the server, the larger the batches.
 */
export class Batcher {
  readonly #answer: AnswerBatch;
  readonly #size: number;
  readonly #windowMs: number;
  readonly #queue: PQueue;
  /** The batch with room for each topK. */
  readonly #open = new Map<number, Batch>();

  constructor(answer: AnswerBatch, options: { size: number; windowMs: number; concurrency: number }) {
    this.#answer = answer;
    this.#size = options.size;
    this.#windowMs = options.windowMs;
    this.#queue = new PQueue({ concurrency: options.concurrency });
  }

  /**
   * @returns One list per query. The lists are the caller's own.
   * @throws The error of the first query that failed; `ABORTED`.
   */
  async search(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal | undefined,
  ): Promise<Passage[][]> {
    throwIfAborted(signal);
    const placed = queries.map((query) => ({ query, batch: this.#place(query, topK) }));
    const batches = new Set(placed.map(({ batch }) => batch));
    for (const batch of batches) batch.waiting++;
    const off = onAbort(signal, () => {
      for (const batch of batches) this.#leave(batch);
    });
    try {
      const outcomes = placed.map(async ({ query, batch }) => (await batch.outcomes).get(query) as Outcome);
      const lists: Passage[][] = [];
      for (const outcome of await abortable(Promise.all(outcomes), signal)) {
        if (outcome instanceof Error) throw outcome;
        lists.push([...outcome]);
      }
      return lists;
    } finally {
      off();
    }
  }

  /** Resolves when no batch is waiting or at work. */
  async idle(): Promise<void> {
    await this.#queue.onIdle();
  }

  #place(query: string, topK: number): Batch {
    let batch = this.#open.get(topK);
    if (batch === undefined || (batch.queries.size === this.#size && !batch.queries.has(query))) {
      batch = this.#start(topK);
    }
    batch.queries.add(query);
    return batch;
  }

  #start(topK: number): Batch {
    const batch = new Batch(topK);
    this.#open.set(topK, batch);
    batch.outcomes = this.#queue.add(() => this.#send(batch));
    return batch;
  }

  async #send(batch: Batch): Promise<ReadonlyMap<string, Outcome>> {
    await sleep(Math.max(0, batch.created + this.#windowMs - performance.now()), undefined);
    this.#seal(batch);
    const queries = [...batch.queries];
    const outcomes = await this.#answer(queries, batch.topK, batch.controller.signal);
    return new Map(queries.map((query, i) => [query, outcomes[i] as Outcome]));
  }

  #leave(batch: Batch): void {
    if (--batch.waiting > 0) return;
    this.#seal(batch);
    batch.controller.abort();
  }

  /** No query joins it from now on. */
  #seal(batch: Batch): void {
    if (this.#open.get(batch.topK) === batch) this.#open.delete(batch.topK);
  }
}

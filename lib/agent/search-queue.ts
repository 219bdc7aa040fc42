import { type AbortOptions, abortable, sleep, throwIfAborted, withDeadline } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { foreignReason } from "../network/secrets.js";
import type { Passage } from "../retrieval/passage.js";
import type { Retriever } from "../retrieval/retriever.js";
import { controlQuery, mayPass, Outage, type OutageProgress, rememberAnswered } from "./outage.js";
import type { SearchSettings } from "./search-options.js";
import { readReply } from "./search-reply.js";

/** What became of one search. */
export type SearchOutcome =
  | { ok: true; passages: Passage[] }
  /** After the retries; `error` is the last one, its message short and without what looks like a secret. */
  | { ok: false; error: HindsearchError };

/** How searches are sent. */
export interface SearchQueueOptions extends AbortOptions, Omit<SearchSettings, "maxFailedShare"> {
  /** Passages per query. */
  topK: number;
  /** Called when an outage begins, when it is found to go on, and when it is over or given up. */
  onOutage?: (event: "begins" | "goes on" | "ends") => void;
}

/** Counts of a queue. */
export interface SearchQueueStatistics {
  /** Queries asked. */
  searches: number;
  /** Queries that failed in the end. */
  failures: number;
  /** Calls of the retriever, retries included. */
  calls: number;
  /** Milliseconds in which at least one call was under way. */
  milliseconds: number;
  /** Outages that were waited for, with or without success. */
  outages: number;
  /** Milliseconds that outages lasted while they were waited for. */
  pausedMilliseconds: number;
}

/** A query with whom to tell. */
interface Search {
  query: string;
  settle(outcome: SearchOutcome): void;
  fail(error: unknown): void;
}

/** What one call of the retriever gave. */
type Attempt = { ok: true; lists: Passage[][] } | { ok: false; error: HindsearchError };

/**
 * Gathers the searches of many trajectories into batches for one retriever.
 *
 * While `searchConcurrency` calls are under way, new queries wait and then leave together: a slow service gets fewer and
 * larger batches, not more calls. A batch that fails is tried again query by query, so that one query that the
 * service cannot digest does not take its neighbours with it.
 *
 * A failure that may pass is an outage if a control query fails as well, and the query's own if that one is answered.
 * While an outage lasts nothing is asked but whether it is over.
 */
export class SearchQueue {
  readonly #retriever: Retriever;
  readonly #options: SearchQueueOptions;
  #waiting: Search[] = [];
  #batches = 0;
  #calls = 0;
  #busySince = 0;
  #outage: Outage | undefined;
  readonly #statistics: SearchQueueStatistics = {
    searches: 0,
    failures: 0,
    calls: 0,
    milliseconds: 0,
    outages: 0,
    pausedMilliseconds: 0,
  };

  constructor(retriever: Retriever, options: SearchQueueOptions) {
    this.#retriever = retriever;
    this.#options = options;
  }

  /** Counts so far. */
  get statistics(): Readonly<SearchQueueStatistics> {
    return this.#statistics;
  }

  /** The outage that lasts, if one does. */
  get outage(): OutageProgress | undefined {
    return this.#outage?.progress(this.#waiting.length);
  }

  /** Searches for one query. Rejects with `ABORTED`, or what `onOutage` throws: a failed search is a value. */
  search(query: string): Promise<SearchOutcome> {
    this.#statistics.searches++;
    const outcome = new Promise<SearchOutcome>((settle, fail) => {
      this.#waiting.push({ query, settle, fail });
    });
    // In a microtask: the searches that one step of the decoder ended then leave together.
    queueMicrotask(() => this.#send());
    return outcome;
  }

  #send(): void {
    const { searchConcurrency } = this.#options;
    if (this.#waiting.length === 0 || this.#batches >= searchConcurrency || this.#outage !== undefined)
      return;
    const batch = this.#waiting;
    this.#waiting = [];
    this.#batches++;
    this.#ask(batch)
      .catch((error) => {
        for (const { fail } of batch) fail(error);
      })
      .finally(() => {
        this.#batches--;
        this.#send();
      });
  }

  async #ask(batch: readonly Search[]): Promise<void> {
    const together = await this.#attempt(batch.map(({ query }) => query));
    if (together.ok) {
      for (const [i, search] of batch.entries()) this.#found(search, together.lists[i] as Passage[]);
      return;
    }
    if (await this.#isOutage(together.error)) return this.#pause(batch, together.error);
    // One after the other: a service in trouble must not get more calls than before.
    for (const [i, search] of batch.entries()) {
      const attempt = await this.#retry(search.query, together, batch.length === 1);
      if (!attempt.ok && (await this.#isOutage(attempt.error)))
        return this.#pause(batch.slice(i), attempt.error);
      this.#settle(search, attempt);
    }
  }

  /** Asks for one query alone. `isOwn`: the failed attempt before was already for it alone. */
  async #retry(query: string, before: Attempt, isOwn: boolean): Promise<Attempt> {
    let [attempt, own] = [before, isOwn];
    for (let retry = 0; retry < this.#options.searchRetries && !attempt.ok; retry++) {
      if (own && mayPass(attempt.error) === false) break;
      attempt = await this.#attempt([query]);
      own = true;
    }
    return attempt;
  }

  #settle(search: Search, attempt: Attempt): void {
    if (attempt.ok) this.#found(search, attempt.lists[0] as Passage[]);
    else this.#lose(search, attempt.error);
  }

  #found({ query, settle }: Search, passages: Passage[]): void {
    if (passages.length > 0) rememberAnswered(this.#retriever, query);
    settle({ ok: true, passages });
  }

  #lose({ settle }: Search, error: HindsearchError): void {
    this.#statistics.failures++;
    settle({ ok: false, error });
  }

  /** Whether a failure is one of the service's that is waited for, and not the query's own. */
  async #isOutage(error: HindsearchError): Promise<boolean> {
    const { outage, maxOutageMs } = this.#options;
    if (outage === "fail" || this.#statistics.pausedMilliseconds >= maxOutageMs) return false;
    const control = controlQuery(this.#retriever);
    // Of an error that says nothing, the retriever's past decides: one that never worked is no outage.
    if (!(mayPass(error) ?? control !== undefined)) return false;
    if (control === undefined) return true;
    const attempt = await this.#attempt([control]);
    return !attempt.ok && mayPass(attempt.error) !== false;
  }

  /** Lets searches wait until the service answers or there is no more time for it. */
  #pause(searches: readonly Search[], error: HindsearchError): void {
    this.#waiting = [...searches, ...this.#waiting];
    if (this.#outage !== undefined) return;
    this.#outage = new Outage(error);
    this.#statistics.outages++;
    void this.#sitOut(this.#outage).then(
      () => this.#send(),
      (thrown) => {
        this.#outage = undefined;
        for (const { fail } of this.#waiting.splice(0)) fail(thrown);
      },
    );
  }

  async #sitOut(outage: Outage): Promise<void> {
    const { onOutage } = this.#options;
    onOutage?.("begins");
    const isOver = await this.#isOver(outage);
    this.#outage = undefined;
    this.#statistics.pausedMilliseconds += outage.milliseconds;
    onOutage?.("ends");
    if (isOver) return;
    const error = outage.givenUp();
    for (const search of this.#waiting.splice(0)) this.#lose(search, error);
  }

  /** Tries with growing waits; false if time ran out. */
  async #isOver(outage: Outage): Promise<boolean> {
    const { maxOutageMs, signal, onOutage } = this.#options;
    const budget = maxOutageMs - this.#statistics.pausedMilliseconds;
    const left = () => budget - outage.milliseconds;
    for (;;) {
      await sleep(Math.max(0, Math.min(outage.wait, left())), signal);
      if (left() <= 0) return false;
      const error = await this.#tryAgain(left());
      if (error === undefined) return true;
      // Cut short by the end of the time, so its reason is not the service's.
      if (left() <= 0) return false;
      outage.goesOn(error);
      onOutage?.("goes on");
    }
  }

  /** Asks a control query, or, while there is none, those that wait in turn. Returns why the outage goes on, if it does. */
  async #tryAgain(deadline: number): Promise<HindsearchError | undefined> {
    const control = controlQuery(this.#retriever);
    const search = this.#waiting[0] as Search;
    const attempt = await this.#attempt([control ?? search.query], deadline);
    const isAnswer = attempt.ok || mayPass(attempt.error) === false;
    if (control === undefined) {
      this.#waiting = this.#waiting.filter((other) => other !== search);
      if (isAnswer) this.#settle(search, attempt);
      else this.#waiting.push(search);
    }
    return isAnswer ? undefined : attempt.error;
  }

  async #attempt(queries: string[], most = Number.POSITIVE_INFINITY): Promise<Attempt> {
    const { signal, topK, searchDeadline } = this.#options;
    const deadline = Math.min(searchDeadline, Math.ceil(most));
    this.#statistics.calls++;
    if (this.#calls++ === 0) this.#busySince = performance.now();
    try {
      const lists = await withDeadline(deadline, signal, async (inner, timedOut) => {
        try {
          return await abortable(this.#retriever.search([...queries], topK, { signal: inner }), inner);
        } catch (error) {
          if (!timedOut()) throw error;
          const message = `No reply within ${deadline} ms.`;
          throw new HindsearchError("RETRIEVAL_FAILED", message, { cause: error, retryable: true });
        }
      });
      return { ok: true, lists: readReply(lists, queries.length, topK) };
    } catch (error) {
      throwIfAborted(signal);
      return { ok: false, error: told(error) };
    } finally {
      if (--this.#calls === 0) this.#statistics.milliseconds += performance.now() - this.#busySince;
    }
  }
}

/** An error of foreign code as one of ours, its message short and without what looks like a secret. */
function told(error: unknown): HindsearchError {
  const message = foreignReason(error);
  if (!(error instanceof HindsearchError)) {
    return new HindsearchError("RETRIEVAL_FAILED", message, { cause: error });
  }
  return error.message === message ? error : new HindsearchError(error.code, message, { cause: error });
}

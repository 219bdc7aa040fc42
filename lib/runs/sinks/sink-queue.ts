import { type AbortOptions, abortedError, onAbort, sleep } from "../../abort.js";
import { foreignReason } from "../../network/secrets.js";
import type { MetricPoint, MetricSink, RunOutcome, SinkRun } from "./metric-sink.js";

/** Limits of a {@link SinkQueue}; times in milliseconds. */
export interface SinkLimits {
  /** Points that wait at most. */
  capacity: number;
  /** For one call of the sink. */
  timeoutMs: number;
  /** Before a failed call is repeated; doubled each time. */
  retryMs: number;
  /** For what is left at the end of the run. */
  endMs: number;
}

/** What became of the points that a sink was to get. */
export interface SinkReport {
  /** Of the sink. */
  name: string;
  /** Points that it took. */
  written: number;
  /** Points that it did not take, or not in time. */
  dropped: number;
  /** Calls that failed. */
  failures: number;
  /** Why the last one did. */
  lastFailure: string | undefined;
}

/** What holds for the sinks of a training. */
export const SINK_LIMITS: SinkLimits = { capacity: 20_000, timeoutMs: 10_000, retryMs: 1_000, endMs: 5_000 };

/** Points of one call. */
const BATCH = 1_000;
/** Calls for the same points. */
const ATTEMPTS = 5;
const LONGEST_WAIT_MS = 60_000;

/**
 * Stands between a run and a sink, so that whatever the sink does the run goes on at its own pace: a bounded queue
 * that drops its oldest points.
 */
export class SinkQueue {
  #waiting: MetricPoint[] = [];
  /** The loop that hands points over, while it runs. */
  #work: Promise<void> | undefined;
  /** A call that did not end at its deadline: the sink gets no other before it does. */
  #hung: Promise<void> | undefined;
  #started = false;
  #ending = false;
  #failuresInARow = 0;
  readonly #report: SinkReport;
  /** Ends waiting between two attempts. */
  readonly #hurry = new AbortController();
  /** Ends everything. */
  readonly #stop = new AbortController();
  readonly #stopped = new Promise<void>((resolve) => onAbort(this.#stop.signal, resolve));
  /** Said from within {@link push} and {@link end}, so that a callback that throws has somebody to throw to. */
  readonly #warnings: string[] = [];

  constructor(
    private readonly sink: MetricSink,
    private readonly run: SinkRun,
    private readonly onWarning: (warning: string) => void,
    private readonly limits: SinkLimits,
  ) {
    this.#report = { name: sink.name, written: 0, dropped: 0, failures: 0, lastFailure: undefined };
  }

  /** Hands points over some time; returns at once. */
  push(points: readonly MetricPoint[]): void {
    if (this.#ending) return;
    this.#sayWarnings();
    this.#waiting.push(...points);
    this.#dropOldest();
    this.#work ??= this.#deliver();
  }

  /** Hands over what is left, within the limit, and says what became of all. */
  async end(outcome: RunOutcome): Promise<SinkReport> {
    this.#ending = true;
    this.#hurry.abort();
    const timer = setTimeout(() => this.#stop.abort(), this.limits.endMs);
    await this.#work;
    await Promise.race([this.#hung, this.#stopped]);
    // A sink whose time is up, because a call hangs, gets a signal that has fired, and the chance to close what it has open.
    await this.#call((options) => this.sink.end?.(outcome, options)).catch(() => undefined);
    clearTimeout(timer);
    this.#drop(this.#waiting.splice(0).length);
    this.#sayWarnings();
    return this.#report;
  }

  async #deliver(): Promise<void> {
    // The sink's own code never runs within push.
    await null;
    while (this.#waiting.length > 0) {
      await Promise.race([this.#hung, this.#stopped]);
      if (this.#stop.signal.aborted) break;
      const lastChance = this.#ending;
      const batch = this.#waiting.splice(0, BATCH);
      try {
        await this.#hand(batch);
        this.#report.written += batch.length;
        this.#failuresInARow = 0;
      } catch (error) {
        await this.#failed(batch, error);
        if (lastChance) break;
      }
    }
    this.#work = undefined;
  }

  async #hand(batch: readonly MetricPoint[]): Promise<void> {
    const { sink, run } = this;
    if (!this.#started) await this.#call((options) => sink.start?.(run, options));
    this.#started = true;
    await this.#call((options) => sink.write(batch, options));
  }

  /** Keeps the points for another attempt, and waits for it. */
  async #failed(batch: readonly MetricPoint[], error: unknown): Promise<void> {
    const reason = foreignReason(error);
    if (this.#report.failures === 0) {
      this.#warnings.push(
        `The metric sink ${this.#report.name} takes no metrics: ${reason}. The run goes on.`,
      );
    }
    this.#report.failures++;
    this.#report.lastFailure = reason;
    this.#failuresInARow++;
    if (this.#failuresInARow % ATTEMPTS === 0) {
      this.#drop(batch.length);
    } else {
      this.#waiting.unshift(...batch);
      this.#dropOldest();
    }
    const wait = Math.min(LONGEST_WAIT_MS, this.limits.retryMs * 2 ** (this.#failuresInARow - 1));
    await sleep(wait, this.#hurry.signal).catch(() => undefined);
  }

  /** One call with a deadline; what it does behind that is its own business, but the next one waits for it. */
  async #call(body: (options: AbortOptions) => Promise<void> | undefined): Promise<void> {
    const { timeoutMs } = this.limits;
    const controller = new AbortController();
    const { signal } = controller;
    const timeout = new Error(`no answer within ${timeoutMs} ms`);
    const timer = setTimeout(() => controller.abort(timeout), timeoutMs);
    const off = onAbort(this.#stop.signal, () => controller.abort(abortedError(this.#stop.signal)));
    // A sink may throw at once too.
    const work = (async () => body({ signal }))();
    let over = false;
    const settled = work.then(
      () => {
        over = true;
      },
      () => {
        over = true;
      },
    );
    try {
      await new Promise<void>((resolve, reject) => {
        work.then(resolve, reject);
        onAbort(signal, () => reject(signal.reason as Error));
      });
    } finally {
      clearTimeout(timer);
      off();
      if (!over) {
        this.#hung = settled.then(() => {
          this.#hung = undefined;
        });
      }
    }
  }

  #sayWarnings(): void {
    for (const warning of this.#warnings.splice(0)) this.onWarning(warning);
  }

  #dropOldest(): void {
    const over = this.#waiting.length - this.limits.capacity;
    if (over > 0) this.#drop(this.#waiting.splice(0, over).length);
  }

  #drop(count: number): void {
    this.#report.dropped += count;
  }
}

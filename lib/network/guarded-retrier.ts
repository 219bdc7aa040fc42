import { throwIfAborted } from "../abort.js";
import { Breaker, type BreakerOptions, type BreakerStats } from "./breaker.js";
import { LatencyRecorder, type LatencySummary } from "./latency.js";
import { AttemptError, Retrier, type RetryOptions } from "./retry.js";

/** Figures of the requests that a client sends. */
export interface RequestStats {
  /** Attempts that followed a failed one. */
  retries: number;
  /** Requests including their retries and waits; without those that the breaker refused. */
  latency: LatencySummary;
  /** The client's circuit breaker. */
  breaker: BreakerStats;
}

/**
 * How a client sends its requests: repeated by one {@link Retrier}, and not at all while one {@link Breaker} is open.
 *
 * @internal
 */
export class GuardedRetrier {
  readonly #retrier: Retrier;
  readonly #breaker: Breaker;
  readonly #latency = new LatencyRecorder();

  constructor(options: RetryOptions & { [key in keyof BreakerOptions]-?: number }) {
    this.#retrier = new Retrier(options);
    this.#breaker = new Breaker(options, ({ retryable, answered }) => retryable && !answered);
  }

  /** Figures for logs and panels. */
  stats(): RequestStats {
    const { retried: retries } = this.#retrier;
    return { retries, latency: this.#latency.summary(), breaker: this.#breaker.stats() };
  }

  /**
   * @param attempt - Makes one attempt at the request; throws {@link AttemptError}. Other errors are passed on at once.
   * @throws The last attempt's error; a retryable one at once while the server is given up on; `ABORTED`.
   */
  async run<T>(attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    try {
      return await this.#breaker.run((trying) => this.#request(attempt, signal, trying), signal);
    } catch (error) {
      throwIfAborted(signal);
      throw error;
    }
  }

  async #request<T>(attempt: () => Promise<T>, signal: AbortSignal | undefined, trying: boolean): Promise<T> {
    const start = performance.now();
    let failed: AttemptError | undefined;
    const noted = async () => {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof AttemptError && !signal?.aborted) failed = error;
        throw error;
      }
    };
    try {
      return await this.#retrier.run(noted, signal, trying ? { retries: 0 } : {});
    } catch (error) {
      // A caller who gave up between the retries leaves a request that had failed: a server that swallows everything
      // would otherwise never be noticed by callers with less patience than all the retries need.
      throw signal?.aborted && failed !== undefined ? failed : error;
    } finally {
      if (!signal?.aborted) this.#latency.record(performance.now() - start);
    }
  }
}

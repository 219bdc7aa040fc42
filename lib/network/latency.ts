/** Figures over the most recent calls, in milliseconds; all 0 before the first one. */
export interface LatencySummary {
  /** Calls ever recorded. */
  count: number;
  /** Median. */
  p50: number;
  /** 90 % of calls took at most this long. */
  p90: number;
  /** 99 % of calls took at most this long. */
  p99: number;
  /** The longest. */
  max: number;
}

/**
 * Remembers how long the last 4,096 calls took.
 *
 * @internal
 */
export class LatencyRecorder {
  readonly #recent = new Float64Array(4096);
  #count = 0;

  /** Adds one call. */
  record(milliseconds: number): void {
    this.#recent[this.#count++ % this.#recent.length] = milliseconds;
  }

  summary(): LatencySummary {
    const sorted = this.#recent.slice(0, Math.min(this.#count, this.#recent.length)).sort();
    const quantile = (q: number) => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0;
    return {
      count: this.#count,
      p50: quantile(0.5),
      p90: quantile(0.9),
      p99: quantile(0.99),
      max: sorted.at(-1) ?? 0,
    };
  }
}

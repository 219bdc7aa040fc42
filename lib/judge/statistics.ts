import { LatencyRecorder, type LatencySummary } from "../network/latency.js";
import { CRITIQUE_FAILURES, type Critique, type CritiqueFailure } from "./critique.js";
import type { LeakStats } from "./leak-guard.js";
import type { JudgeUsage } from "./usage.js";

/** What a judge did since it was made. */
export interface JudgeStats {
  /** Critiques asked for, aborted ones not counted. */
  calls: number;
  /** Critiques given. */
  ok: number;
  /** Calls without a critique, by why. */
  failures: Record<CritiqueFailure, number>;
  /** Calls that a record answered; always 0 for a judge that has none. */
  cacheHits: number;
  /** From the start of the work on a call to its end, retries included, waiting for a free place not. */
  latency: LatencySummary;
  /** How often critiques stated a gold answer. */
  leaks: LeakStats;
  /** Tokens and money. */
  usage: JudgeUsage;
}

/** Counts what a judge does. */
export class JudgeCounters {
  readonly #latency = new LatencyRecorder();
  readonly #failures = Object.fromEntries(CRITIQUE_FAILURES.map((status) => [status, 0])) as Record<
    CritiqueFailure,
    number
  >;
  #calls = 0;

  /** Runs a call and counts it, unless it throws. */
  async counted(call: () => Promise<Critique>): Promise<Critique> {
    const start = performance.now();
    const critique = await call();
    this.#calls++;
    this.#latency.record(performance.now() - start);
    if (critique.status !== "ok") this.#failures[critique.status]++;
    return critique;
  }

  /** Goes on from counts of before. */
  restore({ calls, failures }: { calls: number; failures: Partial<JudgeStats["failures"]> }): void {
    this.#calls = calls;
    Object.assign(this.#failures, failures);
  }

  /** The counts so far. */
  stats(): Pick<JudgeStats, "calls" | "ok" | "failures" | "latency"> {
    const failed = Object.values(this.#failures).reduce((sum, count) => sum + count, 0);
    return {
      calls: this.#calls,
      ok: this.#calls - failed,
      failures: { ...this.#failures },
      latency: this.#latency.summary(),
    };
  }
}

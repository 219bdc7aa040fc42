import { LatencyRecorder, type LatencySummary } from "../network/latency.js";
import type { Critique, CritiqueFailure } from "./judge.js";
import type { LeakStats } from "./leak.js";

/** What a judge did so far. */
export interface JudgeStats {
  /** Critiques asked for, aborted ones not counted. */
  calls: number;
  /** Critiques given. */
  ok: number;
  /** Calls without a critique, by why. */
  failures: Record<CritiqueFailure, number>;
  /** From the start of the work on a call to its end, retries included, waiting for a free place not. */
  latency: LatencySummary;
  /** How often critiques stated a gold answer. */
  leaks: LeakStats;
}

/** Counts what a judge does. */
export class JudgeCounters {
  readonly #latency = new LatencyRecorder();
  readonly #failures: Record<CritiqueFailure, number> = {
    unparsable: 0,
    "too-short": 0,
    refused: 0,
    truncated: 0,
    leaked: 0,
    failed: 0,
  };
  #calls = 0;

  /** Adds one call. */
  add(critique: Critique, milliseconds: number): void {
    this.#calls++;
    this.#latency.record(milliseconds);
    if (critique.status !== "ok") this.#failures[critique.status]++;
  }

  /** The counts so far. */
  stats(leaks: LeakStats): JudgeStats {
    const failed = Object.values(this.#failures).reduce((sum, count) => sum + count, 0);
    return {
      calls: this.#calls,
      ok: this.#calls - failed,
      failures: { ...this.#failures },
      latency: this.#latency.summary(),
      leaks,
    };
  }
}

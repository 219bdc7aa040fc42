import type { AbortOptions } from "../../abort.js";

/** One number of a run. */
export interface MetricPoint {
  /** Its path in the record, e.g. `rollout/reward` or `evaluation/greedy/exactMatch`. */
  name: string;
  /** Finite. */
  value: number;
  /** Training steps done when it was measured: the first step of a training gives points of step 1. */
  step: number;
  /** When it was measured, milliseconds since 1970. */
  time: number;
}

/** The run that a sink gets its metrics from. */
export interface SinkRun {
  /** The same before and after every resume; a sink that keeps runs apart finds it again by this. */
  id: string;
  /** For people: the name of the run folder, or the id. */
  name: string;
  /** The run folder, if there is one. */
  folder: string | undefined;
  /** Training steps done when it begins or goes on. Points of later steps that came before are void: they come again. */
  step: number;
  /** Settings as plain JSON, secrets redacted. */
  config: unknown;
}

/** How a run ended: all steps done; ended early by its caller; by an error. */
export type RunOutcome = "finished" | "stopped" | "failed";

/**
 * Takes the metrics of a run to somewhere else than the run folder.
 *
 * Calls come one at a time, but for an `end` beside a call that hangs, on the event loop, beside the training, which never
 * waits for them. Each has a deadline, told by its signal. What a sink fails to take is offered again a few times, so that
 * it may get a point twice; what it does not take in time is dropped, oldest first, counted and reported at the end of the
 * run.
 */
export interface MetricSink {
  /** For messages; without secrets. */
  readonly name: string;

  /** A run begins, or goes on. Comes before the first `write`, and again if it failed. */
  start?(run: SinkRun, options: AbortOptions): Promise<void>;

  /**
   * Takes points in the order in which they were measured.
   *
   * @param points - At least 1, at most 1,000.
   * @param options - `signal` fires when the points are given up.
   * @throws Anything; the run goes on. The message is shown, with what looks like a secret redacted.
   */
  write(points: readonly MetricPoint[], options: AbortOptions): Promise<void>;

  /**
   * The run has ended, and what `start` opened is to be closed. Comes once, also if `start` failed, and with a signal that
   * has fired if a call hangs that was given up long ago.
   */
  end?(outcome: RunOutcome, options: AbortOptions): Promise<void>;
}

import type { RunRecord } from "../log-file.js";
import type { MetricSink, RunOutcome, SinkRun } from "./metric-sink.js";
import { metricPoints } from "./points.js";
import { SINK_LIMITS, type SinkLimits, SinkQueue, type SinkReport } from "./sink-queue.js";

/**
 * The sinks of a run.
 *
 * @internal
 */
export class MetricSinks {
  readonly #queues: readonly SinkQueue[];
  readonly #onWarning: (warning: string) => void;

  constructor(
    sinks: readonly MetricSink[],
    run: SinkRun,
    onWarning: (warning: string) => void,
    limits: SinkLimits = SINK_LIMITS,
  ) {
    this.#onWarning = onWarning;
    this.#queues = sinks.map((sink) => new SinkQueue(sink, run, onWarning, limits));
  }

  /** Hands the numbers of a metrics record to every sink, some time; returns at once. */
  push(record: RunRecord): void {
    const points = metricPoints(record, Date.now());
    for (const queue of this.#queues) queue.push(points);
  }

  /** Gives every sink a few seconds for what is left, and warns of what was lost. */
  async end(outcome: RunOutcome): Promise<SinkReport[]> {
    const reports = await Promise.all(this.#queues.map((queue) => queue.end(outcome)));
    for (const { name, written, dropped, failures, lastFailure } of reports) {
      if (dropped === 0) continue;
      this.#onWarning(
        `The metric sink ${name} took ${written} of ${written + dropped} points; ${dropped} were dropped. ` +
          `${failures} of its calls failed${lastFailure === undefined ? "" : `, the last one: ${lastFailure}`}. ` +
          "The run folder has them all.",
      );
    }
    return reports;
  }
}

import { setImmediate } from "node:timers/promises";
import { abortable, throwIfAborted } from "../abort.js";

/** Work in steps of well under a millisecond: `yield` marks where the event loop may have its turn. */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Milliseconds of work between two turns of the event loop. */
const SLICE = 3;

interface Job {
  steps: Steps<unknown>;
  signal: AbortSignal | undefined;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/**
 * Runs computations on the event loop without blocking it: one after the other in the order given, each in steps,
 * with a turn for everything else every few milliseconds. One at a time, so they may share scratch memory.
 */
export class TimeSlicer {
  readonly #jobs: Job[] = [];
  #running = false;
  /**
   * Kept from job to job: a caller that awaits one short job after the other runs in microtasks alone, and the event
   * loop would never get its turn if every job began a slice of its own.
   */
  #sliceStart = performance.now();

  /** The value that the steps return. Rejects with `ABORTED` when the signal fires, and the steps then end early. */
  run<T>(steps: Steps<T>, signal?: AbortSignal): Promise<T> {
    const result = new Promise<T>((resolve, reject) => {
      this.#jobs.push({ steps, signal, resolve: resolve as Job["resolve"], reject });
    });
    if (!this.#running) void this.#drain();
    return abortable(result, signal);
  }

  /** Between two pieces of work outside of {@link run}: gives the event loop its turn if it is due. */
  async turn(): Promise<void> {
    if (performance.now() - this.#sliceStart < SLICE) return;
    await setImmediate();
    this.#sliceStart = performance.now();
  }

  async #drain(): Promise<void> {
    this.#running = true;
    for (let job = this.#jobs.shift(); job !== undefined; job = this.#jobs.shift()) {
      try {
        job.resolve(await this.#finish(job));
      } catch (error) {
        job.reject(error);
      }
    }
    this.#running = false;
  }

  async #finish({ steps, signal }: Job): Promise<unknown> {
    try {
      for (;;) {
        if (performance.now() - this.#sliceStart >= SLICE) await this.turn();
        throwIfAborted(signal);
        const { done, value } = steps.next();
        if (done) return value;
      }
    } finally {
      steps.return(undefined);
    }
  }
}

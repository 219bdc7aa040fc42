import { setImmediate } from "node:timers/promises";

/** Milliseconds of work between two turns of the event loop. */
const SLICE = 3;

/**
 * Lets a long loop give the event loop its turns: a batch has thousands of trajectories, and what is done with each is
 * short.
 *
 * @internal
 */
export class Pacer {
  #since = performance.now();

  /** Goes on at once, or after a turn of the event loop if the last one is a few milliseconds ago. */
  async pause(): Promise<void> {
    if (performance.now() - this.#since < SLICE) return;
    await setImmediate();
    this.#since = performance.now();
  }
}

/**
 * Like `Promise.all(items.map(start))`, but starting the calls in slices.
 *
 * @internal
 */
export async function startPaced<Item, Result>(
  items: readonly Item[],
  start: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const pacer = new Pacer();
  const started: Promise<Result>[] = [];
  for (const item of items) {
    const result = start(item);
    // Its error is for whoever awaits all of them, below; until then it must not count as unhandled.
    result.catch(() => undefined);
    started.push(result);
    await pacer.pause();
  }
  return Promise.all(started);
}

import { setMaxListeners } from "node:events";
import { HindsearchError } from "./errors.js";

/** Options of every call that can take long. */
export interface AbortOptions {
  /** Ends the call: it rejects with code `ABORTED` and the signal's reason as `cause`. */
  signal?: AbortSignal | undefined;
}

/**
 * The error of a call that its caller's signal ended.
 *
 * @internal
 */
export function abortedError(signal: AbortSignal): HindsearchError {
  return new HindsearchError("ABORTED", "The call was aborted by its signal.", { cause: signal.reason });
}

/**
 * @throws {@link HindsearchError} `ABORTED` if the signal has fired.
 * @internal
 */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortedError(signal);
}

/**
 * Calls `listener` once when the signal fires, at once if it has fired.
 *
 * Node warns of a leak at the eleventh listener of a signal; one signal for a thousand concurrent calls is no leak.
 *
 * @returns Takes the listener off again; to be called when the work is over.
 * @internal
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {};
  if (signal.aborted) listener();
  setMaxListeners(0, signal);
  // A promise that a listener returns would be watched by Node, which throws its rejection at the process.
  const heard = () => {
    listener();
  };
  signal.addEventListener("abort", heard, { once: true });
  return () => signal.removeEventListener("abort", heard);
}

/**
 * `promise`, but rejecting with `ABORTED` as soon as the signal fires. What the promise stands for goes on; its
 * outcome is dropped.
 *
 * @internal
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const off = onAbort(signal, () => reject(abortedError(signal)));
    promise.then(resolve, reject).finally(off);
  });
}

/**
 * Waits, or rejects with `ABORTED` at once when the signal fires; then no timer is left behind.
 *
 * @internal
 */
export async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  try {
    await abortable(
      new Promise<void>((resolve) => {
        timer = setTimeout(resolve, milliseconds);
      }),
      signal,
    );
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs `body` under a signal that fires when the outer one does or after `milliseconds`.
 *
 * `AbortSignal.any` would do, but on Node 20 every use of it leaves an entry on a long-lived outer signal, and a run
 * makes hundreds of thousands of calls under one.
 *
 * @param body - Gets the signal; `timedOut` tells afterwards which of the two fired.
 * @internal
 */
export async function withDeadline<T>(
  milliseconds: number,
  outer: AbortSignal | undefined,
  body: (signal: AbortSignal, timedOut: () => boolean) => Promise<T>,
): Promise<T> {
  throwIfAborted(outer);
  const controller = new AbortController();
  let expired = false;
  const off = onAbort(outer, () => controller.abort(outer?.reason));
  const timer = setTimeout(() => {
    expired = true;
    controller.abort(new Error(`deadline of ${milliseconds} ms`));
  }, milliseconds);
  try {
    return await body(controller.signal, () => expired);
  } finally {
    clearTimeout(timer);
    off();
  }
}

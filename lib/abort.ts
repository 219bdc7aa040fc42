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
 * `promise`, but rejecting with `ABORTED` as soon as the signal fires. What the promise stands for goes on; its
 * outcome is dropped.
 *
 * @internal
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(abortedError(signal));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
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
  const forward = () => controller.abort(outer?.reason);
  const timer = setTimeout(() => {
    expired = true;
    controller.abort(new Error(`deadline of ${milliseconds} ms`));
  }, milliseconds);
  outer?.addEventListener("abort", forward, { once: true });
  try {
    return await body(controller.signal, () => expired);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", forward);
  }
}

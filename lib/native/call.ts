import { abortedError, onAbort, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { Addon } from "./addon.js";
import type { Cancellation } from "./cancellation.js";

/** Calls a function of the addon that returns a promise, and gives its errors their class. */
export async function callNative<Result>(start: () => Promise<Result>): Promise<Result> {
  try {
    return await start();
  } catch (error) {
    throw HindsearchError.from(error);
  }
}

/**
 * The same for a function that can be ended.
 *
 * @param addon - Whose function it is: one knows no cancellation of another.
 * @param start - Makes the call and hands the cancellation on.
 * @param signal - Ends the call. If it is aborted already, `start` is not called.
 * @throws {@link HindsearchError} `ABORTED`, with the signal's reason as `cause`, or what the call failed with.
 */
export async function callCancellable<Result>(
  addon: Addon,
  start: (cancellation: Cancellation | undefined) => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  throwIfAborted(signal);
  const cancellation = signal && addon.createCancellation();
  const off = onAbort(signal, () => cancellation?.cancel());
  try {
    return await start(cancellation);
  } catch (error) {
    throw signal?.aborted && hasCode(error, "ABORTED") ? abortedError(signal) : HindsearchError.from(error);
  } finally {
    off();
  }
}

/** Calls a function of the addon that returns at once, and gives its errors their class. */
export function callNativeSync<Result>(start: () => Result): Result {
  try {
    return start();
  } catch (error) {
    throw HindsearchError.from(error);
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

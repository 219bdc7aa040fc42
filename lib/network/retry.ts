import { sleep, throwIfAborted, withDeadline } from "../abort.js";

/** What is known about a failed attempt beside its message. */
export interface AttemptDetails extends ErrorOptions {
  /** Whether another attempt may end otherwise. */
  retryable: boolean;
  /** HTTP status, if there was a response. */
  status?: number | undefined;
  /** How long the server asks to wait, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** Whether the server may have done the work, and charge for it. Default false. */
  charged?: boolean | undefined;
  /** Whether the server answered a part of the request, so that it is there. Default false. */
  answered?: boolean | undefined;
}

/** One request to a server failed. Clients turn it into their own error or failure value. */
export class AttemptError extends Error {
  /** The class name, for logs. */
  override readonly name = "AttemptError";
  /** Whether another attempt may end otherwise. */
  readonly retryable: boolean;
  /** HTTP status, if there was a response. */
  readonly status: number | undefined;
  /** How long the server asks to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Whether the server may have done the work, and charge for it. */
  readonly charged: boolean;
  /** Whether the server answered a part of the request, so that it is there. */
  readonly answered: boolean;

  /**
   * @param message - What happened, without secrets: it becomes part of the client's message.
   * @param details - What a client needs to decide.
   */
  constructor(
    message: string,
    { retryable, status, retryAfterMs, charged = false, answered = false, ...options }: AttemptDetails,
  ) {
    super(message, options);
    this.retryable = retryable;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.charged = charged;
    this.answered = answered;
  }
}

/**
 * Makes one attempt with a deadline of its own.
 *
 * @param attempt - Gets a signal that fires at the deadline and with `signal`.
 * @throws What the attempt throws, or, past the deadline, a retryable {@link AttemptError}.
 * @internal
 */
export function attemptWithin<T>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return withDeadline(timeoutMs, signal, async (inner, timedOut) => {
    try {
      return await attempt(inner);
    } catch (cause) {
      if (!timedOut()) throw cause;
      const message = `no complete answer within ${timeoutMs} ms`;
      throw new AttemptError(message, { retryable: true, charged: true });
    }
  });
}

/** How a client repeats failed requests. */
export interface RetryOptions {
  /** Attempts after the first one. Default 4. */
  retries?: number | undefined;
  /** Wait before the first retry in milliseconds; doubled each time, times a random factor of 0.5 to 1. Default 500. */
  baseDelayMs?: number | undefined;
  /** The longest such wait. Default 30,000. */
  maxDelayMs?: number | undefined;
  /**
   * The longest wait that a server may ask for with Retry-After, in milliseconds. It is waited as told, unless it is
   * shorter than `baseDelayMs`; if a server asks for more, the request fails at once with the figure in its message.
   * Default 300,000.
   */
  maxRetryAfterMs?: number | undefined;
}

/** Those of {@link RetryOptions}. @internal */
export const RETRY_DEFAULTS = {
  retries: 4,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  maxRetryAfterMs: 300_000,
} as const;

/**
 * The one owner of a client's retries. When a server answers Retry-After, every request of this client waits, not only
 * the one that was told: the others would only prolong the overload.
 *
 * A library's retry policy would do but for two things: waits must end at once when the signal fires, and must not
 * keep the process alive then.
 *
 * @internal
 */
export class Retrier {
  readonly #options: { [key in keyof RetryOptions]-?: number };
  #pausedUntil = 0;
  /** Attempts that followed a failed one. */
  retried = 0;

  constructor(options: RetryOptions) {
    const {
      retries = RETRY_DEFAULTS.retries,
      baseDelayMs = RETRY_DEFAULTS.baseDelayMs,
      maxDelayMs = RETRY_DEFAULTS.maxDelayMs,
      maxRetryAfterMs = RETRY_DEFAULTS.maxRetryAfterMs,
    } = options;
    this.#options = { retries, baseDelayMs, maxDelayMs, maxRetryAfterMs };
  }

  /**
   * @param attempt - Makes one request; throws {@link AttemptError}. Other errors are passed on at once.
   * @param options - `retries` instead of the client's.
   * @returns What the first successful attempt gives.
   * @throws The last attempt's error with the number of attempts added; `ABORTED`.
   */
  async run<T>(
    attempt: () => Promise<T>,
    signal: AbortSignal | undefined,
    { retries = this.#options.retries }: { retries?: number } = {},
  ): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      await this.ready(signal);
      try {
        return await attempt();
      } catch (error) {
        throwIfAborted(signal);
        if (!(error instanceof AttemptError)) throw error;
        this.#refuseToWait(error);
        if (!error.retryable || attempts > retries) throw counted(error, attempts);
        const { retryAfterMs = 0 } = error;
        this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + retryAfterMs);
        // A server that says "at once", or a date that its clock takes for the future, would be asked without a pause.
        if (retryAfterMs < this.#options.baseDelayMs) await sleep(this.#backOff(attempts), signal);
        this.retried++;
      }
    }
  }

  /** Waits for as long as the server asked for; at once if it did not. An attempt that queued asks again before it is sent. */
  async ready(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const wait = this.#pausedUntil - performance.now();
      if (wait <= 0) return;
      // Spread out, so that the waiting requests do not all arrive in the same instant.
      await sleep(wait + Math.random() * this.#options.baseDelayMs, signal);
    }
  }

  #backOff(attempts: number): number {
    const { baseDelayMs, maxDelayMs } = this.#options;
    return Math.min(maxDelayMs, baseDelayMs * 2 ** (attempts - 1)) * (0.5 + Math.random() / 2);
  }

  /** What the server asks for may still be granted by somebody with more patience, so the error stays retryable. */
  #refuseToWait({ message, retryAfterMs = 0, status, cause }: AttemptError): void {
    const { maxRetryAfterMs } = this.#options;
    if (retryAfterMs <= maxRetryAfterMs) return;
    throw new AttemptError(
      `${message}; the server asks to wait ${retryAfterMs / 1000} s, longer than maxRetryAfterMs (${maxRetryAfterMs / 1000} s)`,
      { retryable: true, status, retryAfterMs, cause },
    );
  }
}

function counted(error: AttemptError, attempts: number): AttemptError {
  if (attempts === 1) return error;
  const { message, retryable, status, retryAfterMs, answered } = error;
  const details = { retryable, status, retryAfterMs, answered, cause: error };
  return new AttemptError(`${message} (${attempts} attempts)`, details);
}

/**
 * 408, 409, 429 and 5xx may pass; any other refusal is about the request itself.
 *
 * @internal
 */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/**
 * Reads a Retry-After header: seconds, with or without a fraction, or a date.
 *
 * @returns Milliseconds, at least 0; `undefined` if there is no header or no sense in it.
 * @internal
 */
export function parseRetryAfter(header: string | null | undefined, now = Date.now()): number | undefined {
  if (header === null || header === undefined) return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  // A bare number with a sign would be read as a year.
  return /[a-z]/i.test(header) && Number.isFinite(date) ? Math.max(0, date - now) : undefined;
}

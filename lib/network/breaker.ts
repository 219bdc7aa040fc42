import {
  BrokenCircuitError,
  type CircuitBreakerPolicy,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  handleType,
} from "cockatiel";
import { abortable } from "../abort.js";
import { count, milliseconds } from "./options.js";
import { AttemptError } from "./retry.js";

/** When a client stops asking a server that is gone. */
export interface BreakerOptions {
  /**
   * After so many requests in a row that failed for what may pass (time-outs, connections, 429, 5xx), of all callers
   * together and each after its retries, nothing is sent for `breakerOpenMs`: requests fail at once. Default 5.
   */
  breakerFailures?: number | undefined;
  /** How long; then one request, without retries, tries whether the server is back. The others wait for it. Default 10,000. */
  breakerOpenMs?: number | undefined;
}

/**
 * Of {@link BreakerOptions}, for a client's schema.
 *
 * @internal
 */
export const breakerShape = {
  breakerFailures: count.default(5),
  breakerOpenMs: milliseconds.default(10_000),
};

/** A client's circuit breaker. */
export interface BreakerStats {
  /** `closed`: requests are sent; `open`: they fail at once; `half-open`: one of them is under way, the others wait for it. */
  state: "closed" | "open" | "half-open";
  /** How often it opened; that a try failed while it was open does not count. */
  opened: number;
  /** Requests that failed at once. */
  refused: number;
}

const STATES = {
  [CircuitState.Closed]: "closed",
  [CircuitState.Open]: "open",
  [CircuitState.HalfOpen]: "half-open",
  // Nobody isolates it.
  [CircuitState.Isolated]: "open",
} as const;

/** A failure that counts, wrapped for the library, which looks at nothing else. */
class Outage extends Error {
  constructor(readonly error: unknown) {
    super();
  }
}

/**
 * The one circuit breaker of a client. Of what a request throws it counts an {@link AttemptError} that is an outage; any
 * other one is an answer, so that the server is there; other errors (the caller's abort, a fault elsewhere) say nothing.
 *
 * @internal
 */
export class Breaker {
  readonly #policy: CircuitBreakerPolicy;
  readonly #isOutage: (error: AttemptError) => boolean;
  readonly #failures: number;
  #since: number | undefined;
  #triesAt = 0;
  #reason = "";
  #opened = 0;
  #refused = 0;

  constructor(
    { breakerFailures, breakerOpenMs }: { breakerFailures: number; breakerOpenMs: number },
    isOutage: (error: AttemptError) => boolean,
  ) {
    this.#isOutage = isOutage;
    this.#failures = breakerFailures;
    this.#policy = circuitBreaker(handleType(Outage), {
      halfOpenAfter: breakerOpenMs,
      breaker: new ConsecutiveBreaker(breakerFailures),
    });
    this.#policy.onBreak(() => {
      const now = Date.now();
      if (this.#since === undefined) this.#opened++;
      this.#since ??= now;
      this.#triesAt = now + breakerOpenMs;
    });
    this.#policy.onReset(() => {
      this.#since = undefined;
    });
  }

  /** Figures for logs and panels. */
  stats(): BreakerStats {
    return { state: STATES[this.#policy.state], opened: this.#opened, refused: this.#refused };
  }

  /**
   * @param request - Makes the request; `trying` says that it is the one that finds out whether the server is back.
   * @param signal - Ends the wait for another's try.
   * @throws What the request throws; a retryable {@link AttemptError} at once while the breaker is open; `ABORTED`.
   */
  async run<T>(request: (trying: boolean) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    try {
      return (
        await abortable(
          this.#policy.execute(() => this.#told(request)),
          signal,
        )
      )();
    } catch (error) {
      if (error instanceof Outage) throw error.error;
      if (error instanceof BrokenCircuitError) throw this.#refusal();
      throw error;
    }
  }

  /** To the library returning is success, and so is what it does not handle of a try: hence the wrapping. */
  async #told<T>(request: (trying: boolean) => Promise<T>): Promise<() => T> {
    // The state changes to half-open only behind this call.
    const trying = this.#policy.state !== CircuitState.Closed;
    try {
      const result = await request(trying);
      return () => result;
    } catch (error) {
      const isAnswer = error instanceof AttemptError && !this.#isOutage(error);
      if (isAnswer) {
        return () => {
          throw error;
        };
      }
      // One that was sent before the breaker opened is no news.
      const isNews = trying || (error instanceof AttemptError && this.#policy.state === CircuitState.Closed);
      if (!isNews) throw error;
      if (error instanceof AttemptError) this.#reason = error.message;
      throw new Outage(error);
    }
  }

  #refusal(): AttemptError {
    this.#refused++;
    const at = (time: number) => new Date(time).toISOString();
    return new AttemptError(
      `nothing is sent since ${at(this.#since as number)}, when ${this.#failures} requests in a row had failed; the last ` +
        `reason was: ${this.#reason}; the next try is at ${at(this.#triesAt)}`,
      { retryable: true, retryAfterMs: Math.max(1, this.#triesAt - Date.now()) },
    );
  }
}

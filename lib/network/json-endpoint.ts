import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { type BreakerOptions, breakerShape } from "./breaker.js";
import { GuardedRetrier, type RequestStats } from "./guarded-retrier.js";
import { count, endpoint, headers, milliseconds, retryShape } from "./options.js";
import { addressOf, type PostTarget, postJson, postTarget } from "./post-json.js";
import { attemptWithin, type RetryOptions } from "./retry.js";

/** Settings of a client that posts JSON to one address. Times are in milliseconds. */
export interface EndpointOptions extends RetryOptions, BreakerOptions {
  /** Address of the endpoint; http or https, without user and password. */
  url: string;
  /** Sent as `Authorization: Bearer`. Default: an environment variable that the client names, else nothing. */
  apiKey?: string | undefined;
  /** Further request headers. Their values are treated as secrets. */
  headers?: Record<string, string> | undefined;
  /** For one attempt, from connecting to the last byte. Default 60,000. */
  timeoutMs?: number | undefined;
  /** Most bytes of a response. Default 64 MiB. */
  maxResponseBytes?: number | undefined;
  /** Requests at work at the same time. Default 4. */
  concurrency?: number | undefined;
}

/**
 * Of {@link EndpointOptions}, for a client's schema.
 *
 * @internal
 */
export const endpointShape = {
  url: endpoint,
  apiKey: z.string().min(1).optional(),
  headers,
  timeoutMs: milliseconds.min(1).default(60_000),
  maxResponseBytes: count.default(64 * 2 ** 20),
  concurrency: count.default(4),
  ...retryShape,
  ...breakerShape,
};

/** What a client of one address did so far. */
export interface EndpointStats extends RequestStats {
  /** Requests, retries not counted; those that the breaker refused are among them. */
  requests: number;
  /** Requests that failed for good. */
  failures: number;
}

/**
 * One address to which JSON is posted: with a limit on what is at work at once, repeated attempts, a deadline for each, a
 * circuit breaker, and without secrets in messages.
 *
 * @internal
 */
export class JsonEndpoint {
  /** For messages. */
  readonly name: string;
  readonly #target: PostTarget;
  readonly #timeoutMs: number;
  readonly #requests: GuardedRetrier;
  readonly #queue: PQueue;
  readonly #stats = { requests: 0, failures: 0 };
  #closing: Promise<void> | undefined;

  /**
   * @param options - Checked.
   * @param environment - Name of the variable that holds the key if no option does.
   */
  constructor(options: z.output<z.ZodObject<typeof endpointShape>>, environment: string) {
    this.name = addressOf(options.url);
    this.#timeoutMs = options.timeoutMs;
    this.#target = postTarget(options, environment);
    this.#requests = new GuardedRetrier(options);
    this.#queue = new PQueue({ concurrency: options.concurrency });
  }

  /** Whether it may still be asked. */
  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Figures for logs and panels. */
  stats(): EndpointStats {
    return { ...this.#stats, ...this.#requests.stats() };
  }

  /**
   * @param read - Checks the answer; throws {@link AttemptError} if it cannot be used.
   * @param isFinal - Whether a failed request is a failure, and not asked for in another way. Default: always.
   * @throws {@link AttemptError} after the last attempt, or at once while the breaker is open; `ABORTED`.
   */
  async post<T>(
    body: unknown,
    read: (answer: unknown) => T,
    { signal }: AbortOptions,
    isFinal: (error: unknown) => boolean = () => true,
  ): Promise<T> {
    throwIfAborted(signal);
    const attempt = () =>
      attemptWithin(this.#timeoutMs, signal, async (inner) =>
        read(await postJson(this.#target, body, inner)),
      );
    return abortable(
      this.#queue.add(() => this.#counted(attempt, signal, isFinal)),
      signal,
    );
  }

  /** What a failed request becomes. */
  failure(what: string, cause: unknown): HindsearchError {
    if (cause instanceof HindsearchError) return cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    return new HindsearchError("RETRIEVAL_FAILED", `${what} at ${this.name} failed: ${reason}.`, { cause });
  }

  /** Waits for the requests at work, then closes the connections. */
  async close(): Promise<void> {
    this.#closing ??= this.#queue.onIdle().then(() => this.#target.dispatcher.close());
    await this.#closing;
  }

  async #counted<T>(
    attempt: () => Promise<T>,
    signal: AbortSignal | undefined,
    isFinal: (error: unknown) => boolean,
  ): Promise<T> {
    this.#stats.requests++;
    try {
      return await this.#requests.run(attempt, signal);
    } catch (error) {
      if (!signal?.aborted && isFinal(error)) this.#stats.failures++;
      throw error;
    }
  }
}

import {
  BrokenCircuitError,
  type CircuitBreakerPolicy,
  ConsecutiveBreaker,
  circuitBreaker,
  handleWhen,
} from "cockatiel";
import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, abortable, throwIfAborted, withDeadline } from "../abort.js";
import { count, endpoint, headers, milliseconds, parseOptions, retryShape } from "../network/options.js";
import { AttemptError, Retrier, type RetryOptions } from "../network/retry.js";
import { Scrubber } from "../network/secrets.js";
import { askForCritique } from "./ask.js";
import { ChatClient } from "./chat-client.js";
import { type Critique, checkJudgeInput, type Judge, type JudgeInput } from "./judge.js";
import { LeakGuard, type LeakPolicy } from "./leak.js";
import type { ModelReply, ParseOptions, TextTokenizer } from "./parse.js";
import type { JudgeMessage, JudgePromptOptions, JudgeWording } from "./prompt.js";
import { JudgeCounters, type JudgeStats } from "./statistics.js";

/** Settings of {@link ChatJudge}. Times are in milliseconds. */
export interface ChatJudgeOptions extends ParseOptions, JudgePromptOptions, RetryOptions {
  /** Address of the API, e.g. `http://127.0.0.1:8000/v1`; http or https, without user and password. */
  baseURL: string;
  /** Which model to ask; at least 7 B parameters are advisable. */
  model: string;
  /**
   * Sent as `Authorization: Bearer`. Default: the environment variable `HINDSEARCH_JUDGE_API_KEY`. No other variable is
   * read, so that no other service's key goes to `baseURL`.
   */
  apiKey?: string | undefined;
  /** Further request headers. Their values are treated as secrets. */
  headers?: Record<string, string> | undefined;
  /** Sampling temperature, 0 to 2. Default 0. */
  temperature?: number | undefined;
  /** Most tokens of a reply: the critique, its marks, and what the model thinks before. Default 256. */
  maxTokens?: number | undefined;
  /** Under which name `maxTokens` is sent. Default `max_tokens`; OpenAI's reasoning models want the other. */
  maxTokensField?: "max_tokens" | "max_completion_tokens" | undefined;
  /** Further fields of the request; they replace ours. `undefined` leaves one out. */
  request?: Record<string, unknown> | undefined;
  /** What happens to critiques that state a gold answer. Default `off`: they are only counted. */
  leak?: LeakPolicy | undefined;
  /** Calls at work at the same time. Default 16. */
  concurrency?: number | undefined;
  /** For one attempt. Default 60,000. */
  timeoutMs?: number | undefined;
  /** For one critique with all its attempts and waits, from when it is its turn. Default 600,000. */
  deadlineMs?: number | undefined;
  /** Most bytes of a response, decompressed. Default 1 MiB. */
  maxResponseBytes?: number | undefined;
  /** After so many failures in a row, of all calls together, nothing is sent for `breakerOpenMs`. Default 5. */
  breakerFailures?: number | undefined;
  /** How long; then one call tries whether the server is back. The others wait for that. Default 10,000. */
  breakerOpenMs?: number | undefined;
}

const Options = z.strictObject({
  baseURL: endpoint,
  model: z.string().min(1),
  tokenizer: z.custom<TextTokenizer>(isTokenizer, "must have encodeText and decode"),
  apiKey: z.string().min(1).optional(),
  headers,
  temperature: z.number().min(0).max(2).default(0),
  maxTokens: count.default(256),
  maxTokensField: z.enum(["max_tokens", "max_completion_tokens"]).default("max_tokens"),
  request: z.record(z.string(), z.unknown()).default({}),
  leak: z.enum(["off", "redact", "drop"]).default("off"),
  concurrency: count.default(16),
  timeoutMs: milliseconds.min(1).default(60_000),
  deadlineMs: milliseconds.min(1).default(600_000),
  maxResponseBytes: count.default(2 ** 20),
  breakerFailures: count.default(5),
  breakerOpenMs: milliseconds.default(10_000),
  maxCritiqueTokens: count.optional(),
  tags: z.array(z.string()).optional(),
  wording: z.custom<Partial<JudgeWording>>((value) => typeof value === "object" && value !== null).optional(),
  maxPassageLength: count.optional(),
  maxReasoningLength: count.optional(),
  maxFieldLength: count.optional(),
  ...retryShape,
});

/**
 * A judge behind any OpenAI-compatible chat endpoint: a hosted service, vLLM, SGLang, llama.cpp and others.
 *
 * Attempts that time out, break off, answer 408, 409, 429, 5xx or something that is no chat completion are repeated with
 * exponential, jittered waits; Retry-After is waited as told, by all calls. 400, 401, 403, 404 and 422 are not repeated.
 * A server that fails again and again gets a rest. Redirects are not followed. Secrets never appear in reasons.
 */
export class ChatJudge implements Judge {
  readonly #options: z.output<typeof Options>;
  readonly #client: ChatClient;
  readonly #retrier: Retrier;
  readonly #breaker: CircuitBreakerPolicy;
  readonly #queue: PQueue;
  readonly #guard: LeakGuard;
  readonly #counters = new JudgeCounters();

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: ChatJudgeOptions) {
    this.#options = parseOptions(Options, options, "ChatJudge");
    const { baseURL, headers, timeoutMs, maxResponseBytes, concurrency, leak } = this.#options;
    const apiKey = this.#options.apiKey ?? (process.env.HINDSEARCH_JUDGE_API_KEY || undefined);
    const query = [...new URL(baseURL).searchParams.values()];
    const scrubber = new Scrubber([apiKey, ...Object.values(headers), ...query]);
    this.#client = new ChatClient({ baseURL, apiKey, headers, timeoutMs, maxResponseBytes, scrubber });
    this.#retrier = new Retrier(this.#options);
    this.#breaker = circuitBreaker(handleWhen(isOutage), {
      halfOpenAfter: this.#options.breakerOpenMs,
      breaker: new ConsecutiveBreaker(this.#options.breakerFailures),
    });
    this.#queue = new PQueue({ concurrency });
    this.#guard = new LeakGuard(leak);
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    return abortable(
      this.#queue.add(() => this.#work(input, signal)),
      signal,
    );
  }

  /** Figures for logs and panels. */
  stats(): JudgeStats {
    return this.#counters.stats(this.#guard.stats());
  }

  async #work(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    throwIfAborted(signal);
    const start = performance.now();
    const critique = this.#guard.apply(await this.#withinDeadline(input, signal), input);
    this.#counters.add(critique, performance.now() - start);
    return critique;
  }

  async #withinDeadline(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    const { deadlineMs, maxTokens } = this.#options;
    return withDeadline(deadlineMs, signal, async (inner, timedOut) => {
      try {
        const ask = (messages: readonly JudgeMessage[], budget: number) => this.#ask(messages, budget, inner);
        return await askForCritique(ask, input, { prompt: this.#options, parse: this.#options, maxTokens });
      } catch (error) {
        throwIfAborted(signal);
        if (timedOut()) return { status: "failed", reason: `no critique within ${deadlineMs} ms` };
        if (!(error instanceof AttemptError)) throw error;
        return { status: "failed", reason: error.message };
      }
    });
  }

  #ask(messages: readonly JudgeMessage[], budget: number, signal: AbortSignal): Promise<ModelReply> {
    const { model, temperature, maxTokensField, request, breakerOpenMs } = this.#options;
    const body = { model, temperature, [maxTokensField]: budget, ...request };
    return this.#retrier.run(async () => {
      try {
        return await this.#breaker.execute(() => this.#client.complete(messages, body, signal));
      } catch (error) {
        if (!(error instanceof BrokenCircuitError)) throw error;
        const retryAfterMs = breakerOpenMs;
        throw new AttemptError("the judge failed too often in a row", { retryable: true, retryAfterMs });
      }
    }, signal);
  }
}

/** A busy server says 429 and is no outage. */
function isOutage(error: Error): boolean {
  return error instanceof AttemptError && error.retryable && error.status !== 429;
}

function isTokenizer(value: unknown): boolean {
  const { encodeText, decode } = (value ?? {}) as Partial<TextTokenizer>;
  return typeof encodeText === "function" && typeof decode === "function";
}

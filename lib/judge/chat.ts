import { randomUUID } from "node:crypto";
import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";
import { AdaptiveLimit } from "../network/adaptive-limit.js";
import { Breaker, breakerShape } from "../network/breaker.js";
import { count, endpoint, headers, milliseconds, parseOptions, retryShape } from "../network/options.js";
import { AttemptError, Retrier, type RetryOptions } from "../network/retry.js";
import { requestSecrets, Scrubber } from "../network/secrets.js";
import { ChatClient, type ChatRequest } from "./chat-client.js";
import type { Critique } from "./critique.js";
import {
  CritiqueWriter,
  type CritiqueWritingOptions,
  checkVotes,
  critiqueShape,
  type ModelRequest,
} from "./critique-writer.js";
import { checkJudgeInput, type JudgeInput } from "./input.js";
import type { Judge } from "./judge.js";
import type { ModelReply } from "./parse.js";
import type { JudgeMessage } from "./prompt.js";
import type { JudgeStats } from "./statistics.js";
import { CRITIQUE_FORMAT, keepsToSchema, PROBE } from "./structured.js";
import { BudgetSpent } from "./usage.js";

/** Settings of {@link ChatJudge}. Times are in milliseconds. */
export interface ChatJudgeOptions extends CritiqueWritingOptions, RetryOptions {
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
  /** Sent as `seed`, plus the number of the vote; whole, from 0. Default: none is sent. */
  seed?: number | undefined;
  /** Under which name `maxTokens` is sent. Default `max_tokens`; OpenAI's reasoning models want the other. */
  maxTokensField?: "max_tokens" | "max_completion_tokens" | undefined;
  /**
   * Further fields of the request; they replace ours, and `undefined` leaves one out. Not `messages`, `n` (see `votes`),
   * `stream`, `max_tokens` and `max_completion_tokens` (see `maxTokens`, `maxTokensField`): a budget could not be kept.
   */
  request?: Record<string, unknown> | undefined;
  /**
   * Whether the reply is forced into a JSON schema by the server (`response_format`), which rules out replies without a
   * critique. `auto`, the default, asks the server once whether it can; where it cannot, the critique is marked text.
   */
  structured?: "auto" | "always" | "never" | undefined;
  /**
   * Requests at work at the same time, at most. Default 16. When the server says that it is overloaded (429, 503, 529) or
   * does not answer in time, their number is halved; it grows back by one per round of successes.
   */
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

/** Fields on which the budget, the votes and the reading of the reply rely. */
const OWN_FIELDS: readonly string[] = ["messages", "n", "stream", "max_tokens", "max_completion_tokens"];

/** Schema of {@link ChatJudgeOptions}. @internal */
export const chatJudgeShape = {
  baseURL: endpoint,
  model: z.string().min(1),
  apiKey: z.string().min(1).optional(),
  headers,
  temperature: z.number().min(0).max(2).default(0),
  seed: z.int().min(0).optional(),
  maxTokensField: z.enum(["max_tokens", "max_completion_tokens"]).default("max_tokens"),
  request: z
    .record(z.string(), z.unknown())
    .refine((fields) => !OWN_FIELDS.some((name) => name in fields), `must not hold ${OWN_FIELDS.join(", ")}`)
    .default({}),
  structured: z.enum(["auto", "always", "never"]).default("auto"),
  concurrency: count.default(16),
  timeoutMs: milliseconds.min(1).default(60_000),
  deadlineMs: milliseconds.min(1).default(600_000),
  maxResponseBytes: count.default(2 ** 20),
  ...critiqueShape,
  ...retryShape,
  ...breakerShape,
};
const Options = z.strictObject(chatJudgeShape);

/**
 * A judge behind any OpenAI-compatible chat endpoint: a hosted service, vLLM, SGLang, llama.cpp and others.
 *
 * Attempts that time out, break off, answer 408, 409, 429, 5xx or something that is no chat completion are repeated with
 * exponential, jittered waits; Retry-After is waited as told, by all calls. 400, 401, 403, 404 and 422 are not repeated.
 * A server that fails again and again gets a rest. Redirects are not followed. Secrets never appear in reasons.
 */
export class ChatJudge implements Judge {
  /** See {@link Judge.identity}. Without the address: the same model elsewhere says the same. */
  readonly identity: string;
  readonly #options: z.output<typeof Options>;
  readonly #client: ChatClient;
  readonly #retrier: Retrier;
  readonly #breaker: Breaker;
  readonly #limit: AdaptiveLimit;
  readonly #queue: PQueue;
  readonly #writer: CritiqueWriter;
  #structured: Promise<boolean> | undefined;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: ChatJudgeOptions) {
    this.#options = parseOptions(Options, options, "ChatJudge");
    const { baseURL, headers, timeoutMs, maxResponseBytes, concurrency } = this.#options;
    const { model, temperature, seed, request, structured, votes } = this.#options;
    checkVotes(votes, "temperature" in request ? Number.POSITIVE_INFINITY : temperature);
    const apiKey = this.#options.apiKey ?? (process.env.HINDSEARCH_JUDGE_API_KEY || undefined);
    const scrubber = new Scrubber(requestSecrets({ apiKey, headers, url: baseURL }));
    this.#client = new ChatClient({ baseURL, apiKey, headers, timeoutMs, maxResponseBytes, scrubber });
    this.#retrier = new Retrier(this.#options);
    this.#breaker = new Breaker(this.#options, isOutage);
    this.#limit = new AdaptiveLimit(concurrency);
    this.#queue = new PQueue({ concurrency });
    this.#writer = new CritiqueWriter(this.#options);
    this.identity = this.#writer.identity({ judge: "chat", model, temperature, seed, request, structured });
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    const work = this.#queue.add(() => {
      throwIfAborted(signal);
      return this.#writer.countedWithin(this.#options.deadlineMs, signal, (inner) =>
        this.#critique(input, inner),
      );
    });
    return abortable(work, signal);
  }

  /** Figures for logs and panels. */
  stats(): JudgeStats {
    return this.#writer.stats();
  }

  /** See {@link Judge.state}. */
  state(): unknown {
    return this.#writer.state();
  }

  /** See {@link Judge.restore}. */
  restore(state: unknown): void {
    this.#writer.restore(state, "ChatJudge");
  }

  /** Requests that may be at work now; see `concurrency`. */
  get concurrency(): number {
    return this.#limit.limit;
  }

  async #critique(input: JudgeInput, signal: AbortSignal): Promise<Critique> {
    const form = (await this.#isStructured(signal)) ? "structured" : "marked";
    return this.#writer.write((request) => this.#ask(request, signal), input, form, signal);
  }

  #ask({ messages, maxTokens, form, vote, reserve }: ModelRequest, signal: AbortSignal): Promise<ModelReply> {
    const { seed } = this.#options;
    const fields = {
      ...(seed === undefined ? {} : { seed: seed + vote }),
      ...(form === "structured" ? { response_format: CRITIQUE_FORMAT } : {}),
    };
    return this.#send(messages, maxTokens, fields, reserve, signal);
  }

  async #send(
    messages: readonly JudgeMessage[],
    maxTokens: number,
    fields: ChatRequest,
    reserve: ModelRequest["reserve"],
    signal: AbortSignal,
  ): Promise<ModelReply> {
    const { model, temperature, maxTokensField, request } = this.#options;
    const body = { model, temperature, [maxTokensField]: maxTokens, ...fields, ...request };
    const key = randomUUID();
    const attempt = async () => {
      // Others may have been told to wait while this one stood in line.
      await this.#retrier.ready(signal);
      const settle = await reserve();
      try {
        const reply = await this.#breaker.run(() => this.#complete(messages, body, key, signal), signal);
        settle(reply.usage);
        return reply;
      } catch (error) {
        settle(error instanceof AttemptError && !error.charged && !signal.aborted ? null : undefined);
        throw error;
      }
    };
    return this.#retrier.run(() => this.#limit.run(attempt, isOverload, { signal }), signal);
  }

  async #complete(...request: Parameters<ChatClient["complete"]>): Promise<ModelReply> {
    try {
      return await this.#client.complete(...request);
    } catch (error) {
      // An attempt that its caller gave up says nothing about the server.
      throwIfAborted(request[3]);
      throw error;
    }
  }

  /** One question for all calls; a probe that could not be answered decides nothing and is put again. */
  async #isStructured(signal: AbortSignal): Promise<boolean> {
    const { structured } = this.#options;
    if (structured !== "auto") return structured === "always";
    this.#structured ??= this.#probe(signal).catch((error) => {
      this.#structured = undefined;
      throw error;
    });
    try {
      return await abortable(this.#structured, signal);
    } catch (error) {
      if (error instanceof BudgetSpent) return false;
      // The one who asked was aborted, not this call.
      if (!signal.aborted && !(error instanceof AttemptError)) return this.#isStructured(signal);
      throw error;
    }
  }

  async #probe(signal: AbortSignal): Promise<boolean> {
    const { maxTokens } = this.#options;
    try {
      const fields = { response_format: PROBE.format };
      const reserve = () => this.#writer.reserve(PROBE.messages, maxTokens, signal);
      return keepsToSchema((await this.#send(PROBE.messages, maxTokens, fields, reserve, signal)).text);
    } catch (error) {
      // What does not know the field refuses it.
      if (error instanceof AttemptError && UNKNOWN_FIELD.includes(error.status)) return false;
      throw error;
    }
  }
}

/** Statuses of servers that do not know `response_format`. */
const UNKNOWN_FIELD: readonly (number | undefined)[] = [400, 422, 501];

/** A busy server says 429 and is no outage. */
function isOutage({ retryable, status }: AttemptError): boolean {
  return retryable && status !== 429;
}

/** Told so by the server, or by its silence: what was charged and has no status ran out of time or broke off. */
function isOverload(error: unknown): boolean {
  if (!(error instanceof AttemptError)) return false;
  return [429, 503, 529].includes(error.status ?? 0) || (error.status === undefined && error.charged);
}

import OpenAI from "openai";
import { z } from "zod";
import { connectionFailure, RefusedAnswer } from "../network/connection-failure.js";
import {
  AttemptError,
  attemptWithin,
  isRetryableStatus,
  parseRetryAfter,
  type Retrier,
} from "../network/retry.js";
import type { Scrubber } from "../network/secrets.js";
import type { ModelReply } from "./parse.js";
import type { JudgeMessage } from "./prompt.js";

/** What {@link ChatClient} needs to know. */
export interface ChatClientOptions {
  baseURL: string;
  apiKey: string | undefined;
  headers: Record<string, string>;
  timeoutMs: number;
  maxResponseBytes: number;
  scrubber: Scrubber;
}

/** One chat completion, without the messages. */
export type ChatRequest = Record<string, unknown>;

const Completion = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        message: z.object({ content: z.string().nullish(), refusal: z.string().nullish() }),
      }),
    )
    .min(1),
  // A server that counts strangely still gives critiques.
  usage: z
    .object({ prompt_tokens: z.int().min(0), completion_tokens: z.int().min(0) })
    .nullish()
    .catch(undefined),
});

/** One attempt at a time at an OpenAI-compatible chat endpoint: no retries, no redirects, a cap on the response. */
export class ChatClient {
  readonly #client: OpenAI;
  readonly #options: ChatClientOptions;

  constructor(options: ChatClientOptions) {
    this.#options = options;
    const { origin, pathname, searchParams } = new URL(options.baseURL);
    this.#client = new OpenAI({
      // The client puts its paths behind all that it is given, a query included.
      baseURL: `${origin}${pathname}`,
      defaultQuery: Object.fromEntries(searchParams),
      // Local servers need none, but the client insists; and it must not find one of another service in the environment.
      apiKey: options.apiKey ?? "none",
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
      defaultHeaders: options.headers,
      maxRetries: 0,
      // Ours is the deadline; the client's own one ends with the response's headers.
      timeout: 2 ** 31 - 1,
      // At its debug level it prints prompts, and with them gold answers.
      logLevel: "off",
      fetch: (url, init) => cappedFetch(url, init, options.maxResponseBytes),
    });
  }

  /**
   * @param idempotencyKey - The same for all attempts at one request, so that no server does it twice.
   * @throws {@link AttemptError}, also when the signal cut it short; that the {@link Retrier} tells apart.
   */
  async complete(
    messages: readonly JudgeMessage[],
    request: ChatRequest,
    idempotencyKey: string,
    signal: AbortSignal | undefined,
  ): Promise<ModelReply> {
    const { timeoutMs } = this.#options;
    const texts = messages.map(({ role, content }) => ({
      role,
      content: content.map(({ text }) => text).join(""),
    }));
    const body = { ...request, messages: texts } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
    return attemptWithin(timeoutMs, signal, async (inner) => {
      let response: unknown;
      try {
        response = await this.#client.chat.completions.create(body, {
          signal: inner,
          headers: { "Idempotency-Key": idempotencyKey },
        });
      } catch (error) {
        throw this.#failure(error);
      }
      return this.#reply(response);
    });
  }

  /** Errors of the client hold the server's words, so none is passed on as a cause. */
  #failure(error: unknown): AttemptError {
    const { scrubber } = this.#options;
    if (error instanceof OpenAI.APIConnectionError) {
      const { message, retryable } = connectionFailure(error);
      return new AttemptError(scrubber.scrub(message), { retryable, charged: !UNREACHED.test(message) });
    }
    if (error instanceof OpenAI.APIError && typeof error.status === "number") {
      const { status, headers } = error as { status: number; headers: Headers | undefined };
      const retryable = isRetryableStatus(status);
      const said = error.message.replace(/^\d+ /, "");
      const redirect = status >= 300 && status <= 399 ? " (a redirect; they are not followed)" : "";
      return new AttemptError(`status ${status}${redirect}: ${scrubber.excerpt(said)}`, {
        retryable,
        status,
        retryAfterMs: retryable ? parseRetryAfter(headers?.get("retry-after")) : undefined,
      });
    }
    if (error instanceof SyntaxError) {
      return new AttemptError("status 200, but the answer is broken JSON", {
        retryable: true,
        status: 200,
        charged: true,
      });
    }
    const reason = error instanceof Error ? error.message : String(error);
    return new AttemptError(scrubber.scrub(reason), { retryable: false });
  }

  #reply(response: unknown): ModelReply {
    const { scrubber } = this.#options;
    const { choices, usage: counts } = Completion.safeParse(response).data ?? {};
    const choice = choices?.[0];
    if (choice === undefined) {
      const found = typeof response === "string" ? response : asText(response);
      throw new AttemptError(`status 200, but the answer is no chat completion: ${scrubber.excerpt(found)}`, {
        retryable: true,
        status: 200,
        charged: true,
      });
    }
    const { finish_reason: reason, message } = choice;
    const text = scrubber.scrub(message.refusal || message.content || "");
    const usage = counts && {
      promptTokens: counts.prompt_tokens,
      completionTokens: counts.completion_tokens,
    };
    if (message.refusal || reason === "content_filter")
      return { text, finish: "refused", ...(usage && { usage }) };
    return { text, finish: reason === "length" ? "length" : "stop", ...(usage && { usage }) };
  }
}

/** Nothing was sent, so nothing is charged. */
const UNREACHED = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/;

/** Of a refusal, so much is read for the message. */
const EXCERPT_BYTES = 4096;

/** Fetches and reads the whole body, so that abort and cap hold for all of it; the client then reads it from memory. */
async function cappedFetch(
  url: string | URL | Request,
  init: RequestInit | undefined,
  maxBytes: number,
): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: "manual" });
  const most = response.ok ? maxBytes : EXCERPT_BYTES;
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of response.body ?? []) {
    total += chunk.length;
    chunks.push(chunk);
    // Counted after decompression; leaving the loop cancels the body.
    if (total <= most) continue;
    if (!response.ok) break;
    throw new RefusedAnswer(`the answer has more than maxResponseBytes (${maxBytes}) bytes`);
  }
  const { status, statusText, headers } = response;
  const body = total === 0 ? null : Buffer.concat(chunks).subarray(0, most);
  return new Response(body, { status, statusText, headers });
}

/** A server may nest its answer deeper than any stack. */
function asText(answer: unknown): string {
  try {
    return JSON.stringify(answer) ?? String(answer);
  } catch {
    return "JSON that is nested too deeply";
  }
}

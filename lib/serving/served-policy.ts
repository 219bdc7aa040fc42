import { randomBytes } from "node:crypto";
import { RefusedRequest } from "../network/server/refused-request.js";
import type { ChatMessage } from "../policy/chat-template.js";
import { ChatTemplate } from "../policy/chat-template.js";
import type { Sampling } from "../policy/decoder.js";
import type { Policy } from "../policy/policy.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import type { CompletionTask } from "./completion.js";
import type { ChatRequest, CompletionRequest } from "./requests.js";

/** What a request may ask for at most, and what it gets if it does not say. */
export interface ServedLimits {
  /** Tokens of a request that names no number. */
  defaultMaxTokens: number;
  /** Choices of one request, all its prompts together. */
  maxChoices: number;
}

/** Characters for each position of the model, of which a prompt that has more is first looked at. Tokens have about four. */
const START_CHARACTERS = 8;

/** A policy as the requests of clients see it: what they ask for becomes tokens. */
export class ServedPolicy {
  /** Text to tokens and back. */
  readonly tokenizer: Tokenizer;
  readonly #maxPositions: number;
  readonly #limits: ServedLimits;
  /** Absent if the policy has no chat template. */
  readonly #template: ChatTemplate | undefined;

  constructor(policy: Pick<Policy, "tokenizer" | "config">, limits: ServedLimits) {
    this.tokenizer = policy.tokenizer;
    this.#maxPositions = policy.config.maxPositions;
    this.#limits = limits;
    this.#template = policy.tokenizer.chatTemplate === null ? undefined : new ChatTemplate(policy.tokenizer);
  }

  /** @throws {@link RefusedRequest} 400. */
  chatTask(request: ChatRequest): CompletionTask {
    if (this.#template === undefined)
      throw new RefusedRequest(400, "the model has no chat template; use /v1/completions");
    const messages = request.messages.map(
      ({ role, content }): ChatMessage => ({
        role: role === "developer" ? "system" : role,
        // Never trusted: whoever talks to the model cannot speak for its template.
        content: textOf(content),
      }),
    );
    this.refuseLong(messages.map(({ content }) => content as string).join("\n"));
    const prompt = this.tokenizer.encodePrompt(this.#template.render(messages));
    return this.#task(Int32Array.from(prompt), request, request.max_completion_tokens ?? request.max_tokens);
  }

  /** One task for each prompt. @throws {@link RefusedRequest} 400. */
  completionTasks(request: CompletionRequest): CompletionTask[] {
    const prompts = promptsOf(request.prompt);
    this.#checkChoices(prompts.length * (request.n ?? 1));
    return prompts.map((prompt) => this.#task(this.#encode(prompt), request, request.max_tokens));
  }

  /**
   * Refuses a text that the model has no room for by its start alone: making tokens of megabytes would hold up all other
   * requests for seconds.
   *
   * @throws {@link RefusedRequest} 400.
   */
  refuseLong(text: string): void {
    const start = text.slice(0, START_CHARACTERS * this.#maxPositions);
    if (start.length === text.length) return;
    const tokens = this.tokenizer.encodePrompt([{ text: start, trusted: false }]).length;
    if (tokens > this.#maxPositions) throw this.#tooLong(`more than ${tokens}`);
  }

  #encode(prompt: string | readonly number[]): Int32Array {
    if (typeof prompt !== "string") {
      const wrong = prompt.find((id) => id >= this.tokenizer.size);
      if (wrong !== undefined) throw new RefusedRequest(400, `prompt: there is no token ${wrong}`);
      return Int32Array.from(prompt);
    }
    this.refuseLong(prompt);
    const { tokenizer } = this;
    const ids = tokenizer.encodePrompt([{ text: prompt, trusted: false }], { bos: tokenizer.addsBos });
    if (ids.length === 0) throw new RefusedRequest(400, "prompt: must not be empty");
    return Int32Array.from(ids);
  }

  #task(
    prompt: Int32Array,
    request: ChatRequest | CompletionRequest,
    asked: number | null | undefined,
  ): CompletionTask {
    const room = this.#maxPositions - prompt.length;
    if (room < 1) throw this.#tooLong(String(prompt.length));
    const choices = request.n ?? 1;
    this.#checkChoices(choices);
    const { stop } = request;
    return {
      prompt,
      sampling: samplingOf(request),
      stops: typeof stop === "string" ? [stop] : (stop ?? []),
      maxTokens: Math.min(room, asked ?? this.#limits.defaultMaxTokens),
      choices,
      seed: seedOf(request.seed),
      stream: request.stream ?? false,
    };
  }

  #tooLong(tokens: string): RefusedRequest {
    const message = `the prompt has ${tokens} tokens, and the model takes ${this.#maxPositions} with its answer`;
    return new RefusedRequest(400, message);
  }

  #checkChoices(choices: number): void {
    const { maxChoices } = this.#limits;
    if (choices > maxChoices)
      throw new RefusedRequest(400, `n: ${choices} choices are asked for, at most ${maxChoices} are written`);
  }
}

/** The distribution that a request wants tokens from. */
export function samplingOf(request: ChatRequest | CompletionRequest): Sampling {
  const topK = request.top_k ?? 0;
  return {
    temperature: request.temperature ?? 1,
    topK: Math.max(0, topK),
    topP: request.top_p ?? 1,
    minP: request.min_p ?? 0,
  };
}

/** A seed of the request's own, or one that nobody can guess. */
export function seedOf(seed: number | null | undefined): bigint {
  if (seed === null || seed === undefined) return randomBytes(8).readBigUInt64LE();
  return BigInt.asUintN(64, BigInt(seed));
}

/** The text of a message, its parts joined. */
export function textOf(content: string | readonly { text: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

function promptsOf(prompt: CompletionRequest["prompt"]): (string | number[])[] {
  if (typeof prompt === "string") return [prompt];
  return typeof prompt[0] === "number" ? [prompt as number[]] : (prompt as (string | number[])[]);
}

import { createHash } from "node:crypto";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { ChatTemplate } from "../policy/chat-template.js";
import type { DecoderOptions, Policy } from "../policy/policy.js";
import { askForCritique } from "./ask.js";
import { type Critique, checkJudgeInput, type Judge, type JudgeInput } from "./judge.js";
import { LeakGuard, type LeakPolicy } from "./leak.js";
import type { ModelReply, ParseOptions, TextTokenizer } from "./parse.js";
import type { JudgeMessage, JudgePromptOptions } from "./prompt.js";
import { ReplyWriter } from "./reply-writer.js";
import { JudgeCounters, type JudgeStats } from "./statistics.js";

/** Settings of {@link PolicyJudge}. */
export interface PolicyJudgeOptions extends Omit<ParseOptions, "tokenizer">, JudgePromptOptions {
  /** The model that judges; frozen, e.g. `await policy.snapshot()`. Stays the caller's to dispose of. */
  policy: Policy;
  /** Whether to ask through the model's chat template. Default true; false puts the messages one after the other. */
  chat?: boolean | undefined;
  /** Other variables of the chat template, e.g. `{ enable_thinking: false }`. Trusted. */
  templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** Counts and cuts critiques: that of the policy in training, if it is another one. Default: the judge's own. */
  tokenizer?: TextTokenizer | undefined;
  /** Sampling temperature. Default 0. */
  temperature?: number | undefined;
  /** Of the random numbers at a temperature above 0: whole, 0 to 2^64 - 1. Default 0. */
  seed?: bigint | number | undefined;
  /** Most tokens of a reply: the critique, its marks, and what the model thinks before. Default 256. */
  maxTokens?: number | undefined;
  /** What happens to critiques that state a gold answer. Default `off`: they are only counted. */
  leak?: LeakPolicy | undefined;
  /** Size of the decoder's cache and batch. */
  decoder?: DecoderOptions | undefined;
}

const DEFAULT_MAX_TOKENS = 256;

/**
 * A judge that is a frozen local model, decoded by the same engine as the policy. Concurrent critiques are written in one
 * batch; what is written depends on trajectory, settings and seed alone, never on the batch or the order.
 *
 * Foreign text in its prompt cannot become a control token. A prompt that leaves no room for the reply within the
 * model's positions is a `failed` critique.
 */
export class PolicyJudge implements Judge {
  readonly #options: PolicyJudgeOptions;
  readonly #template: ChatTemplate | undefined;
  readonly #writer: ReplyWriter;
  readonly #guard: LeakGuard;
  readonly #counters = new JudgeCounters();

  /**
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a policy that is not frozen or has no tokenizer,
   * `CHAT_TEMPLATE` if it has no template that can be used and `chat` is not false.
   */
  constructor(options: PolicyJudgeOptions) {
    const { policy, chat = true, leak = "off", decoder = {} } = options;
    if (!policy.frozen) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        "A judge must not change while it judges: give PolicyJudge a frozen policy, e.g. await policy.snapshot().",
      );
    }
    this.#options = options;
    this.#template = chat ? new ChatTemplate(policy.tokenizer) : undefined;
    this.#writer = new ReplyWriter(policy, decoder);
    this.#guard = new LeakGuard(leak);
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    const start = performance.now();
    const critique = this.#guard.apply(await this.#judge(input, signal), input);
    this.#counters.add(critique, performance.now() - start);
    return critique;
  }

  /** Figures for logs and panels. */
  stats(): JudgeStats {
    return this.#counters.stats(this.#guard.stats());
  }

  async #judge(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    const { policy, tokenizer = policy.tokenizer, maxTokens = DEFAULT_MAX_TOKENS } = this.#options;
    const ask = (messages: readonly JudgeMessage[], budget: number) => this.#ask(messages, budget, signal);
    try {
      const parse = { ...this.#options, tokenizer };
      return await askForCritique(ask, input, { prompt: this.#options, parse, maxTokens });
    } catch (error) {
      throwIfAborted(signal);
      return { status: "failed", reason: error instanceof Error ? error.message : String(error) };
    }
  }

  async #ask(
    messages: readonly JudgeMessage[],
    budget: number,
    signal: AbortSignal | undefined,
  ): Promise<ModelReply> {
    const { policy, temperature = 0, seed = 0, maxTokens = DEFAULT_MAX_TOKENS } = this.#options;
    const prompt = this.#encode(messages);
    const room = policy.config.maxPositions - prompt.length;
    if (room < maxTokens) {
      throw new HindsearchError(
        "CONTEXT_FULL",
        `A prompt of ${prompt.length} tokens leaves no room for a reply of ${maxTokens} in the judge's ` +
          `${policy.config.maxPositions} positions; show less with maxPassageLength and its like.`,
      );
    }
    const options = { temperature, seed, maxNewTokens: Math.min(budget, room), stream: streamOf(prompt) };
    const { reason, tokens, error } = await this.#writer.write(prompt, options, signal);
    if (reason === "failed") throw new HindsearchError("NON_FINITE", error ?? "The engine could not go on.");
    const finish = reason === "length" || reason === "context" ? "length" : "stop";
    return { text: policy.tokenizer.decode(tokens), finish };
  }

  #encode(messages: readonly JudgeMessage[]): Int32Array {
    const { policy, templateVariables: variables = {} } = this.#options;
    const separator = { text: "\n\n", trusted: true };
    const segments =
      this.#template?.render(messages, { variables }) ??
      messages.flatMap(({ content }) => [...content, separator]);
    const bos = this.#template === undefined && policy.tokenizer.addsBos;
    return Int32Array.from(policy.tokenizer.encodePrompt(segments, { bos }));
  }
}

/** The random stream of a prompt: the order in which critiques are asked for must not matter. */
function streamOf(prompt: Int32Array): bigint {
  return createHash("sha256").update(new Uint8Array(prompt.buffer)).digest().readBigUInt64LE();
}

import { createHash } from "node:crypto";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { TEMPERATURES } from "../native/decoder.js";
import { parseOptions } from "../network/options.js";
import { ChatTemplate } from "../policy/chat-template.js";
import type { DecoderOptions, Policy } from "../policy/policy.js";
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
import type { ModelReply, TextTokenizer } from "./parse.js";
import type { JudgeMessage } from "./prompt.js";
import { ReplyWriter } from "./reply-writer.js";
import type { JudgeStats } from "./statistics.js";

/** Settings of {@link PolicyJudge}. */
export interface PolicyJudgeOptions extends Omit<CritiqueWritingOptions, "tokenizer" | "prices" | "budget"> {
  /** The model that judges; frozen, e.g. `await policy.snapshot()`. Stays the caller's to dispose of. */
  policy: Policy;
  /** Names the model where critiques are recorded, e.g. after its checkpoint. Without it they are not. */
  name?: string | undefined;
  /** Whether to ask through the model's chat template. Default true; false puts the messages one after the other. */
  chat?: boolean | undefined;
  /** Other variables of the chat template, e.g. `{ enable_thinking: false }`. Trusted. */
  templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** Counts and cuts critiques: that of the policy in training, if it is another one. Default: the judge's own. */
  tokenizer?: TextTokenizer | undefined;
  /** Sampling temperature: 0, or 1e-4 to 1e4. Default 0. */
  temperature?: number | undefined;
  /** Of the random numbers at a temperature above 0: whole, 0 to 2^64 - 1. Default 0. */
  seed?: bigint | number | undefined;
  /** Size of the decoder's cache and batch. */
  decoder?: DecoderOptions | undefined;
}

/** Schema of {@link PolicyJudgeOptions}. @internal */
export const policyJudgeShape = {
  policy: z.custom<Policy>((value) => typeof value === "object" && value !== null, "must be a policy"),
  name: z.string().min(1).optional(),
  chat: z.boolean().default(true),
  templateVariables: z.record(z.string(), z.unknown()).default({}),
  temperature: z
    .number()
    .min(0)
    .max(TEMPERATURES.most)
    .refine((t) => t === 0 || t >= TEMPERATURES.least, `must be 0 or at least ${TEMPERATURES.least}`)
    .default(0),
  seed: z.union([z.bigint(), z.int()]).default(0),
  decoder: z.custom<DecoderOptions>((value) => typeof value === "object" && value !== null).default({}),
  ...critiqueShape,
};
const Options = z.strictObject(policyJudgeShape);

/**
 * A judge that is a frozen local model, decoded by the same engine as the policy. Concurrent critiques are written in one
 * batch; what is written depends on trajectory, settings and seed alone, never on the batch or the order.
 *
 * Foreign text in its prompt cannot become a control token. A prompt that leaves no room for the reply within the
 * model's positions is a `failed` critique.
 */
export class PolicyJudge implements Judge {
  /** See {@link Judge.identity}; only with a `name`. */
  readonly identity: string | undefined;
  readonly #options: z.output<typeof Options>;
  readonly #template: ChatTemplate | undefined;
  readonly #replies: ReplyWriter;
  readonly #writer: CritiqueWriter;

  /**
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options and for a policy that is not frozen or
   * has no tokenizer, `CHAT_TEMPLATE` if it has no template that can be used and `chat` is not false.
   */
  constructor(options: PolicyJudgeOptions) {
    const tokenizer = options.tokenizer ?? options.policy?.tokenizer;
    this.#options = parseOptions(Options, { ...options, tokenizer }, "PolicyJudge");
    const { policy, name, chat, templateVariables, temperature, seed, votes, decoder } = this.#options;
    if (!policy.frozen) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        "A judge must not change while it judges: give PolicyJudge a frozen policy, e.g. await policy.snapshot().",
      );
    }
    checkVotes(votes, temperature);
    this.#template = chat ? new ChatTemplate(policy.tokenizer) : undefined;
    this.#replies = new ReplyWriter(policy, decoder);
    this.#writer = new CritiqueWriter(this.#options);
    const parameters = { name, chat, templateVariables, temperature, seed: String(seed) };
    this.identity = name && this.#writer.identity({ judge: "policy", ...parameters });
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    return this.#writer.counted(() => this.#judge(input, signal));
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
    this.#writer.restore(state, "PolicyJudge");
  }

  async #judge(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    try {
      return await this.#writer.write((request) => this.#ask(request, signal), input, "marked", signal);
    } catch (error) {
      throwIfAborted(signal);
      return { status: "failed", reason: error instanceof Error ? error.message : String(error) };
    }
  }

  async #ask(
    { messages, maxTokens, vote, reserve }: ModelRequest,
    signal: AbortSignal | undefined,
  ): Promise<ModelReply> {
    const { policy, temperature, seed, maxTokens: least } = this.#options;
    const prompt = this.#encode(messages);
    const room = policy.config.maxPositions - prompt.length;
    if (room < least) {
      throw new HindsearchError(
        "CONTEXT_FULL",
        `A prompt of ${prompt.length} tokens leaves no room for a reply of ${least} in the judge's ` +
          `${policy.config.maxPositions} positions; show less with maxPassageLength and its like.`,
      );
    }
    const maxNewTokens = Math.min(maxTokens, room);
    const options = { temperature, seed, maxNewTokens, stream: streamOf(prompt, vote) };
    const settle = await reserve();
    const { reason, tokens, error } = await this.#replies.write(prompt, options, signal);
    const usage = { promptTokens: prompt.length, completionTokens: tokens.length };
    settle(usage);
    if (reason === "failed") throw new HindsearchError("NON_FINITE", error ?? "The engine could not go on.");
    const finish = reason === "length" || reason === "context" ? "length" : "stop";
    return { text: policy.tokenizer.decode(tokens), finish, usage };
  }

  #encode(messages: readonly JudgeMessage[]): Int32Array {
    const { policy, templateVariables: variables } = this.#options;
    const separator = { text: "\n\n", trusted: true };
    const segments =
      this.#template?.render(messages, { variables }) ??
      messages.flatMap(({ content }) => [...content, separator]);
    const bos = this.#template === undefined && policy.tokenizer.addsBos;
    return Int32Array.from(policy.tokenizer.encodePrompt(segments, { bos }));
  }
}

/** The random stream of a prompt and vote: the order in which critiques are asked for must not matter. */
function streamOf(prompt: Int32Array, vote: number): bigint {
  const hash = createHash("sha256").update(new Uint8Array(prompt.buffer));
  return hash.update(String(vote)).digest().readBigUInt64LE();
}

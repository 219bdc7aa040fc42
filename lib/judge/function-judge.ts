import PQueue from "p-queue";
import { z } from "zod";
import { type AbortOptions, abortable, throwIfAborted } from "../abort.js";
import { count, milliseconds, parseOptions } from "../network/options.js";
import { AttemptError } from "../network/retry.js";
import { foreignReason } from "../network/secrets.js";
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
import type { JudgeStats } from "./statistics.js";

/** A message in the form that chat SDKs take. */
export interface ChatTurn {
  /** Who speaks. */
  role: "system" | "user" | "assistant";
  /** What is said. */
  content: string;
}

/** What {@link CompleteFunction} is told beside the messages. */
export interface CompleteOptions {
  /** Fires when the reply is not wanted any more. */
  signal: AbortSignal;
  /** Most tokens of the reply. */
  maxTokens: number;
  /** Sampling temperature. */
  temperature: number;
}

/** From messages to text, by whatever means; retries are its own. What it throws makes a `failed` critique. */
export type CompleteFunction = (
  messages: readonly ChatTurn[],
  options: CompleteOptions,
) => Promise<string | ModelReply>;

/** Settings of {@link FunctionJudge}. Times are in milliseconds. */
export interface FunctionJudgeOptions extends CritiqueWritingOptions {
  /** Asks the model. */
  complete: CompleteFunction;
  /** Names the model where critiques are recorded. Without it they are not. */
  name?: string | undefined;
  /** Told to `complete`; 0 to 2. Default 0. */
  temperature?: number | undefined;
  /** Critiques at work at the same time. Default 16. */
  concurrency?: number | undefined;
  /** For one critique with all its calls, from when it is its turn. Default 600,000. */
  deadlineMs?: number | undefined;
}

const Options = z.strictObject({
  complete: z.custom<CompleteFunction>((value) => typeof value === "function", "must be a function"),
  name: z.string().min(1).optional(),
  temperature: z.number().min(0).max(2).default(0),
  concurrency: count.default(16),
  deadlineMs: milliseconds.min(1).default(600_000),
  ...critiqueShape,
});
const Reply: z.ZodType<ModelReply> = z.object({
  text: z.string(),
  finish: z.enum(["stop", "length", "refused"]),
  usage: z.object({ promptTokens: z.int().min(0), completionTokens: z.int().min(0) }).optional(),
});

/**
 * A judge that is any function from messages to text, so that every SDK fits. Prompt, parser, votes, checks, leak policy
 * and budget are those of `ChatJudge`.
 *
 * @example
 * const judge = new FunctionJudge({
 *   complete: async (messages, { signal, maxTokens: maxOutputTokens, temperature }) => {
 *     const { text } = await generateText({ model, messages, abortSignal: signal, maxOutputTokens, temperature });
 *     return text;
 *   },
 *   tokenizer: policy.tokenizer,
 * });
 */
export class FunctionJudge implements Judge {
  /** See {@link Judge.identity}; only with a `name`. */
  readonly identity: string | undefined;
  readonly #options: z.output<typeof Options>;
  readonly #queue: PQueue;
  readonly #writer: CritiqueWriter;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options. */
  constructor(options: FunctionJudgeOptions) {
    this.#options = parseOptions(Options, options, "FunctionJudge");
    const { name, temperature, votes, concurrency } = this.#options;
    checkVotes(votes, temperature);
    this.#queue = new PQueue({ concurrency });
    this.#writer = new CritiqueWriter(this.#options);
    this.identity = name && this.#writer.identity({ judge: "function", name, temperature });
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    const work = this.#queue.add(() => {
      throwIfAborted(signal);
      return this.#writer.countedWithin(this.#options.deadlineMs, signal, (inner) =>
        this.#writer.write((request) => this.#ask(request, inner), input, "marked", inner),
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
    this.#writer.restore(state, "FunctionJudge");
  }

  async #ask({ messages, maxTokens, reserve }: ModelRequest, signal: AbortSignal): Promise<ModelReply> {
    const { complete, temperature } = this.#options;
    const turns = messages.map(({ role, content }) => ({
      role,
      content: content.map(({ text }) => text).join(""),
    }));
    const settle = await reserve();
    let reply: ModelReply | undefined;
    try {
      const said: unknown = await abortable(
        (async () => complete(turns, { signal, maxTokens, temperature }))(),
        signal,
      );
      reply = Reply.safeParse(typeof said === "string" ? { text: said, finish: "stop" } : said).data;
    } catch (error) {
      throwIfAborted(signal);
      throw new AttemptError(foreignReason(error), { retryable: false, charged: true });
    } finally {
      settle(reply?.usage);
    }
    if (reply === undefined) {
      throw new AttemptError("complete() returned neither a text nor { text, finish }", { retryable: false });
    }
    return reply;
  }
}

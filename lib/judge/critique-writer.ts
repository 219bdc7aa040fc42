import { z } from "zod";
import { throwIfAborted, withDeadline } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { count } from "../network/options.js";
import { AttemptError } from "../network/retry.js";
import { type CritiqueChecks, checkCritique } from "./checks.js";
import type { Critique } from "./critique.js";
import type { JudgeInput } from "./input.js";
import { parseState, WriterState } from "./judge-state.js";
import { LEAK_POLICIES, LeakGuard, type LeakPolicy } from "./leak-guard.js";
import { type ModelReply, type ParseOptions, parseCritique, type TextTokenizer } from "./parse.js";
import {
  type JudgeExample,
  type JudgeMessage,
  type JudgePromptOptions,
  type JudgeWording,
  judgePrompt,
  promptVersion,
  type ReplyForm,
} from "./prompt.js";
import { selectVote, VOTE_SELECTIONS, type VoteSelection } from "./selection.js";
import { JudgeCounters, type JudgeStats } from "./statistics.js";
import {
  BudgetSpent,
  type JudgeBudget,
  mostTokens,
  type RequestTokens,
  type TokenPrices,
  UsageMeter,
  usageShape,
} from "./usage.js";

/** What judges that ask a language model have in common. */
export interface CritiqueWritingOptions extends ParseOptions, JudgePromptOptions {
  /** Most tokens of a reply: the critique, its marks, and what the model thinks before. Default 256. */
  maxTokens?: number | undefined;
  /** Critiques that are asked for per trajectory; one is taken. More than one needs a temperature above 0. Default 1. */
  votes?: number | undefined;
  /** Which one. Default `consensus`. */
  selection?: VoteSelection | undefined;
  /** What happens to critiques that state a gold answer. Default `keep`: they are only counted. */
  leak?: LeakPolicy | undefined;
  /** Cheap checks of what a critique is about. Default all. */
  checks?: CritiqueChecks | undefined;
  /** What tokens cost, for the record and for a budget of money. */
  prices?: TokenPrices | undefined;
  /** A hard limit: once another request could exceed it, critiques are `budget-spent`. Default none. */
  budget?: JudgeBudget | undefined;
}

/** Schema of {@link CritiqueWritingOptions}. @internal */
export const critiqueShape = {
  tokenizer: z.custom<TextTokenizer>(isTokenizer, "must have encodeText and decode"),
  maxCritiqueTokens: count.optional(),
  tags: z.array(z.string()).optional(),
  wording: z.custom<Partial<JudgeWording>>(isObject, "must be an object").optional(),
  examples: z.array(z.custom<JudgeExample>(isObject, "must be an object")).optional(),
  showGold: z.boolean().optional(),
  showReasoning: z.boolean().optional(),
  maxPassageLength: count.optional(),
  maxReasoningLength: count.optional(),
  maxFieldLength: count.optional(),
  maxTokens: count.default(256),
  votes: count.default(1),
  selection: z.enum(VOTE_SELECTIONS).default("consensus"),
  leak: z.enum(LEAK_POLICIES).default("keep"),
  checks: z.strictObject({ language: z.boolean().optional(), topic: z.boolean().optional() }).default({}),
  ...usageShape,
};

/** What {@link critiqueShape} makes of them. */
type Settings = z.output<z.ZodObject<typeof critiqueShape>>;

/** One request to a judge's model. */
export interface ModelRequest {
  messages: readonly JudgeMessage[];
  /** Most new tokens. */
  maxTokens: number;
  /** In which form the critique is asked for. */
  form: ReplyForm;
  /** Which of the votes it is, from 0: sampled with another seed each. */
  vote: number;
  /** Counts the attempts at it; see {@link UsageMeter.reserve}. */
  reserve(): Promise<(used: RequestTokens | undefined | null) => void>;
}

/**
 * One call of a judge's model.
 *
 * @throws {@link AttemptError} if there is no usable reply; other errors end the critique.
 */
export type AskModel = (request: ModelRequest) => Promise<ModelReply>;

/**
 * Turns trajectories into critiques by way of a model: prompt, votes, parser, checks, leak policy, budget, counts. How
 * the model is reached is the business of its caller.
 */
export class CritiqueWriter {
  readonly #options: Settings;
  readonly #guard: LeakGuard;
  readonly #meter: UsageMeter;
  readonly #counters = new JudgeCounters();

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` for a budget of money without prices. */
  constructor(settings: Settings) {
    this.#options = settings;
    this.#guard = new LeakGuard(settings.leak);
    this.#meter = new UsageMeter(settings);
  }

  /**
   * Writes a critique and counts it.
   *
   * @param ask - Reaches the model.
   * @param form - In which form the critique is asked for.
   * @param signal - Ends waiting for the budget.
   * @throws What `ask` throws but {@link AttemptError}.
   */
  async write(
    ask: AskModel,
    input: JudgeInput,
    form: ReplyForm,
    signal: AbortSignal | undefined,
  ): Promise<Critique> {
    const { votes, selection } = this.#options;
    const cast = await Promise.all(
      Array.from({ length: votes }, (_, vote) => this.#vote(ask, input, form, vote, signal)),
    );
    const good = cast.filter((critique) => critique.status === "ok");
    const texts = good.map(({ text }) => text);
    return good.length === 0 ? (cast[0] as Critique) : (good[selectVote(texts, selection)] as Critique);
  }

  /** Sets aside what a request of at most this size costs; see {@link UsageMeter.reserve}. */
  reserve(
    messages: readonly JudgeMessage[],
    maxTokens: number,
    signal: AbortSignal | undefined,
  ): ReturnType<ModelRequest["reserve"]> {
    return this.#meter.reserve(mostTokens(messages, maxTokens), signal);
  }

  /** Runs a call from its start to its end, and counts what came out. */
  counted(work: () => Promise<Critique>): Promise<Critique> {
    return this.#counters.counted(work);
  }

  /**
   * The same with a deadline: a critique that is not there by then has failed, and so has one that could not
   * be asked for.
   */
  countedWithin(
    deadlineMs: number,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Critique>,
  ): Promise<Critique> {
    return this.counted(() =>
      withDeadline(deadlineMs, signal, async (inner, timedOut) => {
        try {
          return await work(inner);
        } catch (error) {
          throwIfAborted(signal);
          if (timedOut()) return { status: "failed", reason: `no critique within ${deadlineMs} ms` };
          if (error instanceof AttemptError) return { status: "failed", reason: error.message };
          throw error;
        }
      }),
    );
  }

  /** Counts so far. */
  stats(): JudgeStats {
    return {
      ...this.#counters.stats(),
      cacheHits: 0,
      leaks: this.#guard.stats(),
      usage: this.#meter.usage(),
    };
  }

  /** See {@link Judge.state}. */
  state(): z.output<typeof WriterState> {
    const { calls, failures, leaks, usage } = this.stats();
    return WriterState.parse({ calls, failures, leaks, usage });
  }

  /** See {@link Judge.restore}. */
  restore(state: unknown, owner: string): void {
    const parsed = parseState(WriterState, state, owner);
    this.#counters.restore(parsed);
    this.#guard.restore(parsed.leaks);
    this.#meter.restore(parsed.usage);
  }

  /** What critiques depend on here. */
  identity(parts: Readonly<Record<string, unknown>>): string {
    const { maxTokens, votes, selection, leak, checks, maxCritiqueTokens, tags } = this.#options;
    const prompt = promptVersion(this.#options);
    return JSON.stringify({
      ...parts,
      prompt,
      ...{ maxTokens, votes, selection, leak, checks, maxCritiqueTokens, tags },
    });
  }

  async #vote(
    ask: AskModel,
    input: JudgeInput,
    form: ReplyForm,
    vote: number,
    signal: AbortSignal | undefined,
  ): Promise<Critique> {
    const prompt = judgePrompt(input, this.#options, form);
    const critique = (messages: readonly JudgeMessage[]) =>
      this.#critique(ask, { messages, form, vote }, prompt.nonce, input, signal);
    return this.#guard.apply(await critique(prompt.messages), input, ({ text }) =>
      critique(prompt.again(text)),
    );
  }

  /**
   * A reply that reached its limit before the critique was complete is asked for once more with four times the budget:
   * models that think first spend a small one on that.
   */
  async #critique(
    ask: AskModel,
    request: Pick<ModelRequest, "messages" | "form" | "vote">,
    nonce: string,
    input: JudgeInput,
    signal: AbortSignal | undefined,
  ): Promise<Critique> {
    const attempt = async (maxTokens: number) => {
      const reserve = () => this.reserve(request.messages, maxTokens, signal);
      const reply = await ask({ ...request, maxTokens, reserve });
      return parseCritique(reply, nonce, this.#options, request.form);
    };
    try {
      const { maxTokens, checks } = this.#options;
      const first = await attempt(maxTokens);
      const critique = first.status === "truncated" ? await attempt(4 * maxTokens) : first;
      return checkCritique(critique, input, checks);
    } catch (error) {
      if (error instanceof BudgetSpent) return { status: "budget-spent", reason: error.message };
      if (error instanceof AttemptError) return { status: "failed", reason: error.message };
      throw error;
    }
  }
}

function isTokenizer(value: unknown): boolean {
  const { encodeText, decode } = (value ?? {}) as Partial<TextTokenizer>;
  return typeof encodeText === "function" && typeof decode === "function";
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if all votes would be one and the same.
 * @internal
 */
export function checkVotes(votes: number, temperature: number): void {
  if (votes === 1 || temperature > 0) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `votes is ${votes} at temperature 0, where all of them are the same; give a temperature above 0, e.g. 0.6.`,
  );
}

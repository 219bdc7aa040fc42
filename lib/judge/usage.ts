import { z } from "zod";
import { onAbort, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { JudgeMessage } from "./prompt.js";

/** What a million tokens cost, in a currency of your choice. */
export interface TokenPrices {
  /** Of the prompt. */
  prompt: number;
  /** Of the reply. */
  completion: number;
}

/** What a judge may use up; behind that it sends no more requests. */
export interface JudgeBudget {
  /** Tokens of prompts and replies together. */
  tokens?: number | undefined;
  /** Money; needs prices. */
  money?: number | undefined;
}

/** What a judge used up. */
export interface JudgeUsage {
  /** Requests that may have been paid for: those that were answered, or that broke off on the way. */
  requests: number;
  /** Tokens read. */
  promptTokens: number;
  /** Tokens written. */
  completionTokens: number;
  /** Requests of unknown size, counted by the most that they can have had: bytes of the prompt, limit of the reply. */
  estimated: number;
  /** What that costs; `null` without prices. */
  money: number | null;
}

/** Tokens of one request. */
export interface RequestTokens {
  /** Read. */
  promptTokens: number;
  /** Written. */
  completionTokens: number;
}

/** Schema of the options. @internal */
export const usageShape = {
  prices: z.strictObject({ prompt: z.number().min(0), completion: z.number().min(0) }).optional(),
  budget: z
    .strictObject({ tokens: z.number().min(0).optional(), money: z.number().min(0).optional() })
    .optional(),
};

/** The budget does not allow another request. */
export class BudgetSpent extends Error {}

/** Tokens that a chat template adds to a message, at most. */
const TOKENS_PER_MESSAGE = 16;

/** The most tokens that a request can take: no tokenizer in use makes more tokens than there are bytes. */
export function mostTokens(messages: readonly JudgeMessage[], maxTokens: number): RequestTokens {
  const bytes = messages
    .flatMap(({ content }) => content)
    .reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  return { promptTokens: bytes + TOKENS_PER_MESSAGE * messages.length, completionTokens: maxTokens };
}

/**
 * Counts what is used up and keeps it within the budget. Before a request the most that it can cost is set aside, so
 * that the budget holds whatever the requests under way turn out to cost.
 */
export class UsageMeter {
  readonly #prices: TokenPrices | undefined;
  readonly #budget: JudgeBudget;
  readonly #waiting = new Set<() => void>();
  /** What requests under way were given; a running sum would not come back to 0. */
  readonly #reserved = new Set<Spent>();
  readonly #used = { requests: 0, promptTokens: 0, completionTokens: 0, estimated: 0 };

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` for a budget of money without prices. */
  constructor({
    prices,
    budget = {},
  }: { prices?: TokenPrices | undefined; budget?: JudgeBudget | undefined }) {
    if (budget.money !== undefined && prices === undefined) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        "A budget of money needs prices, so that it can be counted.",
      );
    }
    this.#prices = prices;
    this.#budget = budget;
  }

  /**
   * Sets aside what a request costs at most. Waits for requests under way if what they may leave decides.
   *
   * @returns To be called once with what was used: tokens, `undefined` if that is unknown, `null` for nothing.
   * @throws {@link BudgetSpent}; `ABORTED`.
   */
  async reserve(
    most: RequestTokens,
    signal: AbortSignal | undefined,
  ): Promise<(used: RequestTokens | undefined | null) => void> {
    const { tokens: tokenLimit = Number.POSITIVE_INFINITY, money: moneyLimit = Number.POSITIVE_INFINITY } =
      this.#budget;
    const wanted = this.#cost(most);
    for (;;) {
      throwIfAborted(signal);
      const spent = this.#cost(this.#used);
      const fits = (set: Spent) =>
        spent.tokens + set.tokens + wanted.tokens <= tokenLimit &&
        spent.money + set.money + wanted.money <= moneyLimit;
      if (fits(sum(this.#reserved))) break;
      if (!fits({ tokens: 0, money: 0 })) {
        throw new BudgetSpent(
          `the budget of ${limitText(this.#budget)} does not allow another request; used are ${spent.tokens} tokens` +
            (this.#prices ? ` for ${spent.money.toPrecision(4)}` : ""),
        );
      }
      await this.#settlement(signal);
    }
    this.#reserved.add(wanted);
    return (used) => {
      this.#reserved.delete(wanted);
      if (used !== null) this.#count(used ?? most, used === undefined);
      for (const wake of [...this.#waiting]) wake();
    };
  }

  /** Goes on from what was used before: the budget is that of both together. */
  restore({ requests, promptTokens, completionTokens, estimated }: Omit<JudgeUsage, "money">): void {
    Object.assign(this.#used, { requests, promptTokens, completionTokens, estimated });
  }

  /** The counts so far. */
  usage(): JudgeUsage {
    return { ...this.#used, money: this.#prices ? this.#cost(this.#used).money : null };
  }

  #count({ promptTokens, completionTokens }: RequestTokens, estimated: boolean): void {
    this.#used.requests++;
    this.#used.promptTokens += promptTokens;
    this.#used.completionTokens += completionTokens;
    if (estimated) this.#used.estimated++;
  }

  #cost({ promptTokens, completionTokens }: RequestTokens): Spent {
    const { prompt, completion } = this.#prices ?? { prompt: 0, completion: 0 };
    return {
      tokens: promptTokens + completionTokens,
      money: (promptTokens * prompt + completionTokens * completion) / 1e6,
    };
  }

  #settlement(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake);
        off();
        resolve();
      };
      this.#waiting.add(wake);
      const off = onAbort(signal, wake);
    });
  }
}

/** Of several judges together; the money is `null` if none has prices. @internal */
export function addUsage(all: readonly JudgeUsage[]): JudgeUsage {
  const total: JudgeUsage = { requests: 0, promptTokens: 0, completionTokens: 0, estimated: 0, money: null };
  for (const usage of all) {
    total.requests += usage.requests;
    total.promptTokens += usage.promptTokens;
    total.completionTokens += usage.completionTokens;
    total.estimated += usage.estimated;
    if (usage.money !== null) total.money = (total.money ?? 0) + usage.money;
  }
  return total;
}

interface Spent {
  tokens: number;
  money: number;
}

function sum(spent: Iterable<Spent>): Spent {
  const total = { tokens: 0, money: 0 };
  for (const { tokens, money } of spent) {
    total.tokens += tokens;
    total.money += money;
  }
  return total;
}

function limitText({ tokens, money }: JudgeBudget): string {
  return [tokens === undefined ? [] : [`${tokens} tokens`], money === undefined ? [] : [`${money} of money`]]
    .flat()
    .join(" and ");
}

import type { AbortOptions } from "../abort.js";
import type { BoundProtocol } from "../agent/bound-protocol.js";
import { startPaced } from "../agent/pacer.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { Policy } from "../policy/policy.js";
import { normalizeAnswer } from "../reward/normalize.js";

/** Where a trajectory left the gold path, and what it should have searched for there. */
export interface Deviation {
  trajectory: Trajectory;
  /** Which of its searches. */
  search: number;
  /** The query of the gold path that belongs there. */
  goldQuery: string;
}

/** Log-probs per token of the two queries that a teacher had to choose from. */
export interface QueryContrast {
  /** Of the gold path's query. */
  gold: number;
  /** Of the query that was made. */
  failed: number;
}

/** The first search that is not the gold path's; `undefined` if there is none within both. */
export function deviationOf(trajectory: Trajectory, goldQueries: readonly string[]): Deviation | undefined {
  const { searches } = trajectory;
  for (const [search, { query, start, end }] of searches.entries()) {
    const goldQuery = goldQueries[search];
    if (goldQuery === undefined) return undefined;
    if (normalizeAnswer(query) === normalizeAnswer(goldQuery)) continue;
    // Without a token of its own a query has no log-prob.
    return end > start ? { trajectory, search, goldQuery } : undefined;
  }
  return undefined;
}

/** Options of {@link contrastQueries}. */
export interface ContrastOptions extends AbortOptions {
  /** That the trajectories were sampled with. */
  temperature: number;
  /** Tokens that a context may have. */
  maxTokens: number;
  /** Tokens that are run together. */
  microBatchTokens?: number | undefined;
}

/** Contexts that are laid out and scored in one call. */
const PART_CONTEXTS = 32;

/**
 * How probable the two queries are for a teacher at the place where a trajectory left the gold path: everything before
 * it as it was sampled, the hint at the head of the prompt.
 *
 * The gold path's query is encoded there with the white space that the policy put around its own.
 *
 * @param hints - One per deviation; `undefined`: none.
 * @returns One per deviation; `undefined` where the context is over the budget.
 */
export async function contrastQueries(
  teacher: Pick<Policy, "score" | "tokenizer">,
  protocol: Pick<BoundProtocol, "promptTokens">,
  deviations: readonly Deviation[],
  hints: readonly (string | undefined)[],
  { temperature, maxTokens, microBatchTokens, signal }: ContrastOptions,
): Promise<(QueryContrast | undefined)[]> {
  const options = { temperature, ...(microBatchTokens === undefined ? {} : { microBatchTokens }), signal };
  const parts = Array.from(
    { length: Math.ceil(deviations.length / PART_CONTEXTS) },
    (_, i) => i * PART_CONTEXTS,
  );
  const scored = await startPaced(parts, async (from) => {
    const contexts = deviations.slice(from, from + PART_CONTEXTS).map((deviation, i) => {
      const { question } = deviation.trajectory.question;
      const prompt = protocol.promptTokens(question, hints[from + i]);
      const pair = [goldTokens(teacher, deviation), failedTokens(deviation)].map((query) =>
        sequenceOf(prompt, deviation, query),
      );
      return pair.every(({ tokens }) => tokens.length <= maxTokens) ? pair : undefined;
    });
    const sequences = contexts.flatMap((pair) => pair ?? []);
    const scores = (sequences.length > 0 ? await teacher.score(sequences, options) : []).values();
    return contexts.map((pair) => {
      if (pair === undefined) return undefined;
      const [gold, failed] = pair.map(({ first }) =>
        mean(scores.next().value?.logProbs.subarray(first) ?? []),
      );
      return { gold: gold as number, failed: failed as number };
    });
  });
  return scored.flat();
}

function failedTokens({ trajectory, search }: Deviation): Int32Array {
  const { start, end } = trajectory.searches[search] as Trajectory["searches"][number];
  return trajectory.tokens.subarray(start, end);
}

function goldTokens({ tokenizer }: Pick<Policy, "tokenizer">, deviation: Deviation): Int32Array {
  const [before = "", after = ""] = tokenizer.decode(failedTokens(deviation)).split(/\S(?:.*\S)?/s);
  const text = before + deviation.goldQuery.trim() + after;
  return Int32Array.from(tokenizer.encodePrompt([{ text, trusted: false }], { atStart: false }));
}

function sequenceOf(prompt: Int32Array, { trajectory, search }: Deviation, query: Int32Array) {
  const before = trajectory.tokens.subarray(0, trajectory.searches[search]?.start);
  const first = prompt.length + before.length;
  const tokens = new Int32Array(first + query.length);
  tokens.set(prompt);
  tokens.set(before, prompt.length);
  tokens.set(query, first);
  return { tokens, first };
}

function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number;
  return sum / values.length;
}

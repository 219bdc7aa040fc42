import { z } from "zod";
import { answerFinder } from "./answer-finder.js";
import type { TrajectoryRow } from "./messages.js";

const index = z.int().min(0);
const number = z.number().nullish().catch(null);

/** What the list needs of a line; the columns of its tokens are not looked at. The file is not trusted. */
const Line = z.object({
  id: z.string().max(200),
  step: index,
  group: index,
  sample: index,
  question: z.object({ question: z.string(), goldAnswers: z.array(z.string()) }),
  tokens: z.array(z.unknown()),
  searches: z.array(
    z.object({
      query: z.string(),
      passages: z.array(z.object({ id: z.string(), title: z.string(), text: z.string() })),
    }),
  ),
  answer: z.string().nullable(),
  status: z.string(),
  turns: index,
  reward: number,
  advantage: number,
  signal: z
    .object({ weights: z.array(z.number()).optional() })
    .optional()
    .catch(undefined),
  critique: z
    .object({ status: z.string(), text: z.string().optional() })
    .optional()
    .catch({ status: "unreadable" }),
});

/** Characters of a text that a row shows. */
const SHOWN = 160;
/** Searches of a trajectory that are looked at. */
const MAX_SEARCHES = 50;

/** What a row knows by itself; whether it failed and what its group is like is known once the group is. */
export type LoneRow = Omit<TrajectoryRow, "failed" | "outcome">;

/**
 * The row of a line of `trajectories.jsonl`.
 *
 * @returns `undefined` if the line is no trajectory.
 */
export function rowOfLine(bytes: Buffer): LoneRow | undefined {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
  const { data } = Line.safeParse(json);
  if (data === undefined) return undefined;
  const { question, searches, critique, signal } = data;
  const gold = answerFinder(question.goldAnswers, question.question);
  const weights = signal?.weights ?? [];
  const queries = searches.map(({ query }) => query);
  const inCritique =
    critique?.status === "leaked" || (critique?.text !== undefined && gold.find(critique.text).length > 0);
  return {
    id: data.id,
    step: data.step,
    group: data.group,
    sample: data.sample,
    question: cut(question.question),
    gold: cut(question.goldAnswers[0] ?? ""),
    answer: data.answer === null ? null : cut(data.answer),
    status: cut(data.status),
    reward: data.reward ?? null,
    advantage: data.advantage ?? null,
    critique: critique === undefined ? null : cut(critique.status),
    leaked: inCritique
      ? "critique"
      : queries.slice(0, MAX_SEARCHES).some((query) => gold.find(query).length > 0)
        ? "query"
        : null,
    found: searches.slice(0, MAX_SEARCHES).some(({ passages }) => passages.some(gold.isNamedIn)),
    repeated: new Set(queries).size < queries.length,
    searches: searches.length,
    turns: data.turns,
    tokens: data.tokens.length,
    weight: weights.length === 0 ? null : weights.reduce((sum, weight) => sum + weight, 0) / weights.length,
  };
}

/** A copy, so that a row does not keep the whole line in memory. */
function cut(text: string): string {
  return Buffer.from(text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text).toString();
}

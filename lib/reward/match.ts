import { HindsearchError } from "../errors.js";
import { type NormalizeOptions, normalizeAnswer } from "./normalize.js";

/**
 * Exact match: whether an answer equals one of the gold answers once both are normalised.
 *
 * @param answer - What was answered; `null`, no answer, never matches.
 * @param goldAnswers - At least one.
 * @param options - How to normalise.
 * @returns 1 or 0.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` without gold answers: a question nobody can answer is a fault of the data,
 * not of the policy.
 */
export function exactMatch(
  answer: string | null,
  goldAnswers: readonly string[],
  options?: NormalizeOptions,
): number {
  return best(answer, goldAnswers, options, (given, gold) => (given === gold ? 1 : 0));
}

/**
 * Containment: whether an answer contains one of the gold answers once both are normalised (Search-R1's sub-EM, FlashRAG's
 * `acc`). A long enough answer contains everything, so this is a figure for reports, not a reward.
 *
 * @param answer - What was answered; `null` never contains anything.
 * @param goldAnswers - At least one. A gold answer that is empty once normalised is in every answer.
 * @param options - How to normalise.
 * @returns 1 or 0.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` without gold answers.
 */
export function containsGold(
  answer: string | null,
  goldAnswers: readonly string[],
  options?: NormalizeOptions,
): number {
  return best(answer, goldAnswers, options, (given, gold) => (given.includes(gold) ? 1 : 0));
}

/**
 * F1 over the words that an answer and a gold answer share once both are normalised, the best over the gold answers. As in
 * HotpotQA's and FlashRAG's scorers, `yes`, `no` and `noanswer` count as a whole or not at all.
 *
 * @param answer - What was answered; `null` scores 0.
 * @param goldAnswers - At least one.
 * @param options - How to normalise.
 * @returns 0 to 1; 0 also if nothing is left of both.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` without gold answers.
 */
export function f1Score(
  answer: string | null,
  goldAnswers: readonly string[],
  options?: NormalizeOptions,
): number {
  return best(answer, goldAnswers, options, wordF1);
}

const WHOLE_ANSWERS: ReadonlySet<string> = new Set(["yes", "no", "noanswer"]);

function wordF1(given: string, gold: string): number {
  if (given !== gold && (WHOLE_ANSWERS.has(given) || WHOLE_ANSWERS.has(gold))) return 0;
  const givenWords = given.split(" ").filter((word) => word !== "");
  const goldWords = gold.split(" ").filter((word) => word !== "");
  const left = new Map<string, number>();
  for (const word of goldWords) left.set(word, (left.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of givenWords) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    left.set(word, count - 1);
    shared++;
  }
  if (shared === 0) return 0;
  const precision = shared / givenWords.length;
  const recall = shared / goldWords.length;
  return (2 * precision * recall) / (precision + recall);
}

function best(
  answer: string | null,
  goldAnswers: readonly string[],
  options: NormalizeOptions | undefined,
  score: (given: string, gold: string) => number,
): number {
  if (!Array.isArray(goldAnswers) || goldAnswers.length === 0) {
    throw new HindsearchError("INVALID_ARGUMENT", "goldAnswers must be a list of at least one text.");
  }
  if (answer === null) return 0;
  const given = normalizeAnswer(answer, options);
  return Math.max(...goldAnswers.map((gold) => score(given, normalizeAnswer(gold, options))));
}

import { HindsearchError } from "../errors.js";
import { type JsonlOptions, readJsonl } from "./jsonl.js";
import type { Question } from "./question.js";

/** A prompt with a longer question fits no context, and would take minutes to encode. */
const MAX_QUESTION = 65_536;

/** Gold answers are compared with everything the policy writes. */
const MAX_ANSWER = 4_096;

/** Options of {@link loadQuestions}. */
export interface QuestionsOptions extends JsonlOptions {
  /** Read only that many rows from the start. Default: all. */
  limit?: number;
}

/**
 * Loads questions from a JSONL file, plain or gzip, in the file's order.
 *
 * A row has `question` (text) and gold answers. Gold answers are united from every one of these keys that is there,
 * each a text or a list of texts, in this order and without repetition: `golden_answers` (FlashRAG), `answer`,
 * `answers`, `reward_model.ground_truth.target` (Search-R1), `answer_aliases`, `aliases`. So an answer that is missing
 * from its own alias list still counts. `id` (text or integer) defaults to `line <n>`; `metadata` is kept as it is.
 * Other keys are ignored.
 *
 * @param path - The file.
 * @param options - `limit`, the limits of {@link readJsonl}, and `signal`.
 * @returns At least one question.
 * @throws {@link HindsearchError} `INVALID_DATA` naming file, line and field for a row that lacks or garbles one, and
 * for a file without rows; `INVALID_ARGUMENT` for a bad limit; what {@link readJsonl} throws.
 */
export async function loadQuestions(path: string, options: QuestionsOptions = {}): Promise<Question[]> {
  const { limit = Number.POSITIVE_INFINITY, ...reading } = options;
  if (limit !== Number.POSITIVE_INFINITY && (!Number.isInteger(limit) || limit < 1)) {
    throw new HindsearchError("INVALID_ARGUMENT", `limit must be a positive integer, got ${limit}.`);
  }
  const questions: Question[] = [];
  for await (const { line, value } of readJsonl(path, reading)) {
    questions.push(parseQuestion(value, `${path}, line ${line}`, `line ${line}`));
    if (questions.length >= limit) break;
  }
  if (questions.length === 0)
    throw new HindsearchError("INVALID_DATA", `${path}: no questions in this file.`);
  return questions;
}

/**
 * Reads one row; see {@link loadQuestions} for its keys.
 *
 * @param row - Any JSON value.
 * @param place - Where it stands, for messages.
 * @param defaultId - Identity of a row without `id`.
 * @throws {@link HindsearchError} `INVALID_DATA`, also for a question of more than 65,536 or an answer of more than 4,096
 * characters.
 */
export function parseQuestion(row: unknown, place: string, defaultId: string): Question {
  const invalid = (what: string) => new HindsearchError("INVALID_DATA", `${place}: ${what}.`);
  if (!isRecord(row)) throw invalid("a question must be a JSON object");
  const { id = defaultId, question, metadata } = row;
  if (typeof id !== "string" && !Number.isSafeInteger(id)) throw invalid("`id` must be text or an integer");
  if (typeof question !== "string" || question.trim() === "") {
    throw invalid("`question` must be text that is not blank");
  }
  if (question.length > MAX_QUESTION) {
    throw invalid(`\`question\` has ${question.length} characters, at most ${MAX_QUESTION} are read`);
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw invalid("`metadata` must be an object");
  }
  const goldAnswers = parseGoldAnswers(row, invalid);
  const parsed: Question = { id: String(id), question: question.trim(), goldAnswers };
  if (metadata) parsed.metadata = metadata;
  return parsed;
}

function parseGoldAnswers(
  row: Record<string, unknown>,
  invalid: (what: string) => HindsearchError,
): string[] {
  const rewardModel = isRecord(row.reward_model) ? row.reward_model : {};
  const groundTruth = isRecord(rewardModel.ground_truth) ? rewardModel.ground_truth : {};
  const sources: [key: string, value: unknown][] = [
    ["golden_answers", row.golden_answers],
    ["answer", row.answer],
    ["answers", row.answers],
    ["reward_model.ground_truth.target", groundTruth.target],
    ["answer_aliases", row.answer_aliases],
    ["aliases", row.aliases],
  ];
  const golds = new Set<string>();
  for (const [key, value] of sources) {
    if (value === undefined || value === null) continue;
    for (const gold of Array.isArray(value) ? value : [value]) {
      if (typeof gold !== "string") throw invalid(`\`${key}\` must be text or a list of texts`);
      if (gold.length > MAX_ANSWER) {
        throw invalid(
          `\`${key}\` holds an answer of ${gold.length} characters, at most ${MAX_ANSWER} are read`,
        );
      }
      if (gold.trim() === "") throw invalid(`\`${key}\` holds a blank answer`);
      golds.add(gold);
    }
  }
  if (golds.size === 0) throw invalid("no gold answer; expected `golden_answers` or `answer`");
  return [...golds];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

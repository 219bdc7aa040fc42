import { z } from "zod";
import { HindsearchError } from "../errors.js";
import type { Passage } from "../retrieval/passage.js";

/** One search of a trajectory, as a judge sees it. */
export interface JudgeStep {
  /** What the policy searched for. */
  readonly query: string;
  /** What came back, best first; empty if nothing was found. */
  readonly passages: readonly Passage[];
  /** What the policy wrote before the search. */
  readonly reasoning?: string;
}

/** A failed trajectory in structured form. Question, queries, reasoning, answer and passages are untrusted text. */
export interface JudgeInput {
  /** The question that the trajectory was about. */
  readonly question: string;
  /** Accepted answers; `null` if the judge may not see them. */
  readonly goldAnswers: readonly string[] | null;
  /** The searches in the order in which they were made. */
  readonly steps: readonly JudgeStep[];
  /** What the trajectory answered; `null` if it did not. */
  readonly answer: string | null;
}

const Input = z.object({
  question: z.string(),
  goldAnswers: z.array(z.string()).nullable(),
  steps: z.array(
    z.object({
      query: z.string(),
      passages: z.array(z.object({ title: z.string(), text: z.string() })),
      reasoning: z.string().optional(),
    }),
  ),
  answer: z.string().nullable(),
});

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
 * @internal
 */
export function checkJudgeInput(input: JudgeInput): void {
  const { error } = Input.safeParse(input);
  const issue = error?.issues[0];
  if (issue === undefined) return;
  const where = issue.path.join(".") || "it";
  throw new HindsearchError("INVALID_ARGUMENT", `This is no input of a judge: ${where}: ${issue.message}.`);
}

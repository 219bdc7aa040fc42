import { z } from "zod";
import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { foreignReason } from "../network/secrets.js";
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

/**
 * Why there is no critique.
 *
 * | status | rule |
 * |---|---|
 * | `unparsable` | the reply holds no marked critique |
 * | `too-short` | the critique has 10 characters or fewer once markers, tags and control characters are gone |
 * | `refused` | the model declined, by its refusal field, its content filter or in words |
 * | `truncated` | the reply reached its token limit before the critique was complete, also with more budget |
 * | `leaked` | the critique states a gold answer and the leak policy drops such critiques |
 * | `failed` | no usable reply: outage, deadline, open circuit, refused request, malformed response |
 */
export type CritiqueFailure = "unparsable" | "too-short" | "refused" | "truncated" | "leaked" | "failed";

/**
 * What a judge says about a trajectory, in at most 8,192 characters. Only `ok` gives a hint; every failure leaves the trajectory without a
 * distillation term and is counted. `raw` is the model's whole reply, for the record.
 */
export type Critique =
  | {
      /** There is a critique. */
      readonly status: "ok";
      /** The critique. */
      readonly text: string;
      /** The whole reply. */
      readonly raw?: string;
    }
  | {
      /** Why there is none. */
      readonly status: CritiqueFailure;
      /** The same in words. */
      readonly reason: string;
      /** The whole reply, if there was one. */
      readonly raw?: string;
    };

/** Reads a failed trajectory and writes one or two sentences on which search should have been made. */
export interface Judge {
  /**
   * Called when a trajectory ends, while others are still being decoded: many calls may be open, and their order is no fixed
   * one. For the same run from the same seed, a critique may depend on its input alone.
   *
   * @param input - The trajectory.
   * @param options - `signal` ends the call.
   * @returns The critique, or why there is none: a failing judge is a value, not an exception.
   * @throws {@link HindsearchError} `ABORTED`, and `INVALID_ARGUMENT` on a malformed input; nothing else.
   */
  critique(input: JudgeInput, options?: AbortOptions): Promise<Critique>;
}

const Reply = z.union([
  z.object({ status: z.literal("ok"), text: z.string(), raw: z.string().optional() }),
  z.object({
    status: z.enum(["unparsable", "too-short", "refused", "truncated", "leaked", "failed"]),
    reason: z.string(),
    raw: z.string().optional(),
  }),
]);
const MAX_CRITIQUE = 8192;

/**
 * What a judge returned, as a critique: anything else, and what is too long to be a hint, is a `failed` one.
 *
 * @internal
 */
export function readCritique(reply: unknown): Critique {
  const { data } = Reply.safeParse(reply);
  if (data === undefined) {
    const expected = 'expected { status: "ok", text } or { status, reason }';
    return { status: "failed", reason: `the judge returned no critique; ${expected}` };
  }
  if (data.status !== "ok") return { ...data, reason: foreignReason(data.reason) } as Critique;
  if (data.text.length > MAX_CRITIQUE) {
    const reason = `the critique has ${data.text.length} characters, at most ${MAX_CRITIQUE} make a hint`;
    return { status: "failed", reason };
  }
  return data as Critique;
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

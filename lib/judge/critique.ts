import { z } from "zod";
import { foreignReason } from "../network/secrets.js";

/**
 * Why there is no critique.
 *
 * | status | rule |
 * |---|---|
 * | `empty` | the reply, or the critique in it, holds no character |
 * | `unparsable` | the reply holds no marked critique, or not the JSON object that it was asked for |
 * | `too-short` | the critique has 10 characters or fewer once markers, tags and control characters are gone |
 * | `refused` | the model declined, by its refusal field, its content filter or in words |
 * | `truncated` | the reply reached its token limit before the critique was complete, also with more budget |
 * | `wrong-language` | most of its letters are of a script in which the question has none |
 * | `off-topic` | it has no word in common with question, queries, titles and answer, and no name from a passage |
 * | `leaked` | the critique states a gold answer and the leak policy drops such critiques |
 * | `budget-spent` | the judge's budget of tokens or money does not allow another request |
 * | `failed` | no usable reply: outage, deadline, open circuit, refused request, malformed response |
 */
export type CritiqueFailure =
  | "empty"
  | "unparsable"
  | "too-short"
  | "refused"
  | "truncated"
  | "wrong-language"
  | "off-topic"
  | "leaked"
  | "budget-spent"
  | "failed";

/** All of them. @internal */
export const CRITIQUE_FAILURES = [
  "empty",
  "unparsable",
  "too-short",
  "refused",
  "truncated",
  "wrong-language",
  "off-topic",
  "leaked",
  "budget-spent",
  "failed",
] as const satisfies readonly CritiqueFailure[];

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

const Reply = z.union([
  z.object({ status: z.literal("ok"), text: z.string(), raw: z.string().optional() }),
  z.object({
    status: z.enum(CRITIQUE_FAILURES),
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

import { createHash } from "node:crypto";
import type { z } from "zod";
import { AttemptError } from "../network/retry.js";

/**
 * Checks the form of what a search service answered.
 *
 * @param contract - What it should speak, for messages.
 * @param form - What its answers should look like, for messages.
 * @throws {@link AttemptError} naming the first place that is wrong.
 * @internal
 */
export function parseAnswer<Schema extends z.ZodType>(
  schema: Schema,
  answer: unknown,
  contract: string,
  form: string,
): z.output<Schema> {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0] as z.core.$ZodIssue;
  const where = path.length === 0 ? "the answer" : path.join(".");
  throw malformed(contract, `${where}: ${message}; expected ${form}`);
}

/**
 * @throws {@link AttemptError} unless there is one result list per query.
 * @internal
 */
export function checkCount(lists: number, queries: number, contract: string): void {
  if (lists !== queries) throw malformed(contract, `${lists} result lists for ${queries} queries`);
}

/**
 * The identity of a passage that came without one.
 *
 * @internal
 */
export function contentId(contents: string): string {
  return `sha256-${createHash("sha256").update(contents).digest("hex").slice(0, 16)}`;
}

/** @internal */
export function malformed(contract: string, problem: string): AttemptError {
  return new AttemptError(`the answer does not have the form of ${contract}: ${problem}`, {
    retryable: false,
    status: 200,
  });
}

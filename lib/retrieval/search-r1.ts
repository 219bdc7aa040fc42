import { createHash } from "node:crypto";
import { z } from "zod";
import { AttemptError } from "../network/retry.js";
import { type Passage, parseContents } from "./passage.js";

/**
 * What `POST /retrieve` takes. `return_scores` is always true: without it the reference server mixes up its answer for
 * two queries and fails for any other number but one.
 */
export interface SearchR1Request {
  queries: readonly string[];
  topk: number;
  return_scores: true;
}

const Hit = z.object({
  document: z.union([
    z.string(),
    z.object({ id: z.union([z.string(), z.number()]).nullish(), contents: z.string() }),
  ]),
  score: z.number().nullish(),
});
const Response = z.object({ result: z.array(z.array(Hit)) });

/**
 * Checks what `POST /retrieve` answered. Documents are objects or bare strings; id and score may be missing (web search
 * variants have none): a passage without an id is identified by its contents. More hits than asked for are cut off,
 * fewer are fine.
 *
 * @returns One list per query, each at most `topK` long.
 * @throws {@link AttemptError} if it has another form, or not one list per query.
 */
export function parseSearchR1(response: unknown, queries: number, topK: number): Passage[][] {
  const parsed = Response.safeParse(response);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0] as z.core.$ZodIssue;
    const where = path.length === 0 ? "the answer" : path.join(".");
    throw malformed(
      `${where}: ${message}; expected {"result": [[{"document": {"id", "contents"}, "score"}]]}`,
    );
  }
  const { result } = parsed.data;
  if (result.length !== queries) throw malformed(`${result.length} result lists for ${queries} queries`);
  return result.map((hits) => hits.slice(0, topK).map(passageOf));
}

function passageOf({ document, score }: z.output<typeof Hit>): Passage {
  const { id, contents } = typeof document === "string" ? { id: null, contents: document } : document;
  const passage = { id: String(id ?? contentId(contents)), ...parseContents(contents) };
  return typeof score === "number" ? { ...passage, score } : passage;
}

function contentId(contents: string): string {
  return `sha256-${createHash("sha256").update(contents).digest("hex").slice(0, 16)}`;
}

function malformed(problem: string): AttemptError {
  return new AttemptError(`the answer does not have the form of POST /retrieve: ${problem}`, {
    retryable: false,
    status: 200,
  });
}

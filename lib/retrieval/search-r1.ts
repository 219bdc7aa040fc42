import { z } from "zod";
import { checkCount, contentId, parseAnswer } from "./answer.js";
import { type Passage, parseContents } from "./passage.js";

const CONTRACT = "POST /retrieve";
const FORM = '{"result": [[{"document": {"id", "contents"}, "score"}]]}';
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
  const { result } = parseAnswer(Response, response, CONTRACT, FORM);
  checkCount(result.length, queries, CONTRACT);
  return result.map((hits) => hits.slice(0, topK).map(passageOf));
}

function passageOf({ document, score }: z.output<typeof Hit>): Passage {
  const { id, contents } = typeof document === "string" ? { id: null, contents: document } : document;
  const passage = { id: String(id ?? contentId(contents)), ...parseContents(contents) };
  return typeof score === "number" ? { ...passage, score } : passage;
}

import { z } from "zod";
import { checkCount, contentId, malformed, parseAnswer } from "./answer.js";
import { type Passage, parseContents } from "./passage.js";

const CONTRACT = "POST /batch_search";
const FORM = '[[[{"id", "contents"}]], [[score]]]';

const Document = z.object({ id: z.union([z.string(), z.number()]).nullish(), contents: z.string() });
const Response = z.tuple([z.array(z.array(Document)), z.array(z.array(z.number().nullable()))]);

/**
 * Checks what `POST /batch_search` answered when asked for scores: a list of documents per query, then a list of scores
 * per query. More hits than asked for are cut off, fewer are fine.
 *
 * @returns One list per query, each at most `topK` long.
 * @throws {@link AttemptError} if it has another form, or not one list per query and one score per document.
 */
export function parseFlashRag(response: unknown, queries: number, topK: number): Passage[][] {
  const [documents, scores] = parseAnswer(Response, response, CONTRACT, FORM);
  checkCount(documents.length, queries, CONTRACT);
  checkCount(scores.length, queries, CONTRACT);
  documents.forEach(({ length }, query) => {
    const found = scores[query]?.length;
    if (found !== length) throw malformed(CONTRACT, `${found} scores for ${length} documents`);
  });
  return documents.map((list, query) =>
    list.slice(0, topK).map(({ id, contents }, rank) => {
      const passage = { id: String(id ?? contentId(contents)), ...parseContents(contents) };
      const score = scores[query]?.[rank];
      return typeof score === "number" ? { ...passage, score } : passage;
    }),
  );
}

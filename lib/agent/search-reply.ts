import { HindsearchError } from "../errors.js";
import { cutText } from "../retrieval/cut.js";
import type { Passage } from "../retrieval/passage.js";

/** Longer texts and titles of passages are cut to so many characters: nobody downstream can use the rest. */
const MAX_TEXT = 65_536;
const MAX_TITLE = 1_024;

/**
 * Checks what a retriever returned and takes out of it what a passage has. A reply in which lists and queries do not
 * match would hand a trajectory the passages of another.
 *
 * @throws {@link HindsearchError} `RETRIEVAL_FAILED`, which no repetition changes.
 * @internal
 */
export function readReply(lists: unknown, queries: number, topK: number): Passage[][] {
  const fail = (what: string) =>
    new HindsearchError("RETRIEVAL_FAILED", `The retriever returned ${what}.`, { retryable: false });
  if (!Array.isArray(lists) || lists.length !== queries) {
    const found = Array.isArray(lists) ? `${lists.length} lists` : typeof lists;
    throw fail(`${found} for ${queries} queries; expected one list each, in their order`);
  }
  return lists.map((list: unknown) => {
    if (!Array.isArray(list) || list.length > topK) throw fail(`no list of at most ${topK} passages`);
    return list.map((passage: unknown): Passage => {
      const { id, title, text, score } = (passage ?? {}) as Record<string, unknown>;
      if (typeof id !== "string" || typeof title !== "string" || typeof text !== "string") {
        throw fail("a passage without id, title and text");
      }
      const kept = { id, title: cutText(title, MAX_TITLE), text: cutText(text, MAX_TEXT) };
      return Number.isFinite(score) ? { ...kept, score: score as number } : kept;
    });
  });
}

import { findAnswers } from "../judge/leak.js";

/** Characters of a text, of an answer and of a question that are looked at, and answers: looking takes time by their product. */
const MAX_TEXT = 16_384;
const MAX_ANSWER = 400;
const MAX_QUESTION = 2_000;
const MAX_ANSWERS = 30;

/** Looks for the gold answers of a question in texts that nobody vouches for. */
export interface AnswerFinder {
  /** Where a text states one, in every form, in order and without overlap. */
  find(text: string): { start: number; end: number }[];
  /**
   * Whether a passage holds one letter for letter, but for case. Looking for every form in all passages of a long run would
   * take minutes.
   */
  isNamedIn(passage: { title: string; text: string }): boolean;
}

/** A finder for the answers of a question. Of very long texts the start counts. */
export function answerFinder(goldAnswers: readonly string[], question: string): AnswerFinder {
  const gold = goldAnswers.slice(0, MAX_ANSWERS).map((answer) => answer.slice(0, MAX_ANSWER));
  const asked = question.slice(0, MAX_QUESTION);
  const letters = gold.map((answer) => answer.trim().toLowerCase()).filter((answer) => answer.length > 2);
  return {
    find(text) {
      const places = findAnswers(text.slice(0, MAX_TEXT), gold, asked);
      let end = 0;
      return places
        .sort((a, b) => a.start - b.start || b.end - a.end)
        .filter((place) => {
          if (place.start < end) return false;
          end = place.end;
          return true;
        });
    },
    isNamedIn({ title, text }) {
      const passage = `${title}\n${text.slice(0, MAX_TEXT)}`.toLowerCase();
      return letters.some((answer) => passage.includes(answer));
    },
  };
}

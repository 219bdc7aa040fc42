import { normalizeAnswer } from "../reward/normalize.js";
import { AnswerWords, keptWords } from "./answer-words.js";

/** What stands in place of a gold answer. @internal */
export const REPLACEMENT = "the answer";
/** Answers that every text contains in another sense. */
const UNCHECKABLE: ReadonlySet<string> = new Set(["yes", "no", "noanswer"]);

/**
 * Whether a text states one of the gold answers, as whole words in order.
 *
 * Words are compared in these forms, and a match in any counts: normalised as exact match normalises them ("Spider-Man" is
 * "spiderman"); as runs of letters and digits without case and accents ("Spider-Man" is "Spider Man", "Obama's" holds
 * "Obama", "Lodz" is "Łódź"); with English number words as digits ("nineteen seventy-five" is "1975"); and across scripts by
 * their Latin spelling ("Сталкер" is "Stalker", "北京" is "Beijing"). Scripts without spaces are compared character by
 * character. Not looked for are answers like yes and no, and those that the question itself holds: a critique of "Which
 * is older, A or B?" may name A.
 *
 * @param text - E.g. a critique or a query.
 * @param goldAnswers - All aliases.
 * @param question - Default none.
 */
export function mentionsAnswer(text: string, goldAnswers: readonly string[], question = ""): boolean {
  return findAnswers(text, goldAnswers, question).length > 0;
}

/**
 * The text with "the answer" in place of every gold answer that {@link mentionsAnswer} finds in it.
 *
 * @param text - E.g. a critique.
 * @param goldAnswers - All aliases.
 * @param question - Default none.
 */
export function redactAnswers(text: string, goldAnswers: readonly string[], question = ""): string {
  let redacted = "";
  let from = 0;
  const spans = findAnswers(text, goldAnswers, question).sort((x, y) => x.start - y.start || y.end - x.end);
  for (const { start, end } of spans) {
    if (start >= from) redacted += text.slice(from, start) + REPLACEMENT;
    from = Math.max(from, end);
  }
  return redacted + text.slice(from);
}

/**
 * Where a text states gold answers, by the rules of {@link mentionsAnswer}. Places may overlap.
 *
 * @internal
 */
export function findAnswers(
  text: string,
  goldAnswers: readonly string[],
  question: string,
): { start: number; end: number }[] {
  const place = new AnswerWords(text);
  const asked = keptWords(question);
  return goldAnswers
    .filter((gold) => !UNCHECKABLE.has(normalizeAnswer(gold)))
    .map(keptWords)
    .filter((gold) => asked.find(gold).length === 0)
    .flatMap((gold) => place.find(gold));
}

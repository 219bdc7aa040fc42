import { TERM } from "../retrieval/analyzer.js";
import { normalizeAnswer } from "../reward/normalize.js";
import type { Critique, JudgeInput } from "./judge.js";

/**
 * What happens to a critique that states a gold answer: it passes (`off`), the answer is replaced by the words "the
 * answer" (`redact`), or there is no critique (`drop`, status `leaked`). It is counted in every case.
 */
export type LeakPolicy = "off" | "redact" | "drop";

/** How often critiques stated a gold answer. */
export interface LeakStats {
  /** Critiques that could be checked: those of judges that were given gold answers. */
  checked: number;
  /** Those of them that stated one. */
  leaked: number;
  /** `leaked / checked`, 0 if there was none. */
  rate: number;
}

/** Words of a text in the form in which they are compared, and where they stand. */
interface Word {
  form: string;
  start: number;
  end: number;
}

const REPLACEMENT = "the answer";
/** Answers that every text contains in another sense. */
const UNCHECKABLE: ReadonlySet<string> = new Set(["yes", "no", "noanswer"]);

/**
 * Whether a text states one of the gold answers, as whole words in order.
 *
 * Words are compared in two forms, and a match in either counts: normalised as exact match normalises them ("Spider-Man"
 * is "spiderman"), and as runs of letters and digits without case and accents ("Spider-Man" is "Spider Man", "Obama's"
 * holds "Obama"). Scripts without spaces are compared character by character. Not looked for are answers like yes and
 * no, and those that the question itself holds: a critique of "Which is older, A or B?" may name A.
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

/** Applies a leak policy to critiques and counts. */
export class LeakGuard {
  #checked = 0;
  #leaked = 0;

  /** @param policy - What happens to a critique that states a gold answer. */
  constructor(readonly policy: LeakPolicy) {}

  /** The critique, or what the policy makes of it. A judge without gold answers cannot be checked here. */
  apply(critique: Critique, { goldAnswers, question }: JudgeInput): Critique {
    if (critique.status !== "ok" || goldAnswers === null) return critique;
    this.#checked++;
    if (!mentionsAnswer(critique.text, goldAnswers, question)) return critique;
    this.#leaked++;
    if (this.policy === "off") return critique;
    const raw = critique.raw === undefined ? {} : { raw: critique.raw };
    const redacted = redactAnswers(critique.text, goldAnswers, question);
    // What is left when an answer was all that the critique said is no hint.
    const useless = redacted.replaceAll(REPLACEMENT, "").trim().length <= 10;
    if (this.policy === "drop" || useless) {
      return { status: "leaked", reason: "the critique states a gold answer", ...raw };
    }
    return { status: "ok", text: redacted, ...raw };
  }

  /** The counts so far. */
  stats(): LeakStats {
    const rate = this.#checked === 0 ? 0 : this.#leaked / this.#checked;
    return { checked: this.#checked, leaked: this.#leaked, rate };
  }
}

function findAnswers(
  text: string,
  goldAnswers: readonly string[],
  question: string,
): { start: number; end: number }[] {
  const find = (place: string, gold: string) =>
    [normalizedWords, plainWords].flatMap((cut) => occurrences(cut(place), cut(gold)));
  return goldAnswers
    .filter((gold) => !UNCHECKABLE.has(normalizeAnswer(gold)) && find(question, gold).length === 0)
    .flatMap((gold) => find(text, gold));
}

/**
 * The words of `normalizeAnswer`, which neither joins nor reorders what stands between white space. Punctuation around
 * a word is no part of it, so that a redacted sentence keeps its end.
 */
function normalizedWords(text: string): Word[] {
  return [...text.matchAll(/[\p{L}\p{N}](?:\S*[\p{L}\p{N}\p{M}])?/gu)].flatMap(({ 0: word, index }) =>
    normalizeAnswer(word)
      .split(" ")
      .filter((form) => form !== "")
      .map((form) => ({ form, start: index, end: index + word.length })),
  );
}

/** Runs of letters and digits, but for articles. */
function plainWords(text: string): Word[] {
  return [...text.matchAll(TERM)]
    .map(({ 0: word, index }) => ({ form: fold(word), start: index, end: index + word.length }))
    .filter(({ form }) => form !== "" && form !== "a" && form !== "an" && form !== "the");
}

function fold(word: string): string {
  return word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function occurrences(words: readonly Word[], answer: readonly Word[]): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = [];
  if (answer.length === 0) return found;
  for (let first = 0; first + answer.length <= words.length; first++) {
    if (answer.every(({ form }, i) => words[first + i]?.form === form)) {
      found.push({
        start: (words[first] as Word).start,
        end: (words[first + answer.length - 1] as Word).end,
      });
    }
  }
  return found;
}

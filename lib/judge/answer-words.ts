import anyAscii from "any-ascii";
import { TERM } from "../retrieval/analyzer.js";
import { normalizeAnswer } from "../reward/normalize.js";
import { spelledNumber } from "./number-words.js";

/** A word in the form in which it is compared, and where it stands in its text. */
export interface Word {
  readonly form: string;
  readonly start: number;
  readonly end: number;
}

/** A word with its form in Latin letters. */
interface RomanWord extends Word {
  /** Whether it was written in them. */
  readonly latin: boolean;
}

/** A text in the forms in which answers are looked for; each form is made once, when it is needed. */
export class AnswerWords {
  readonly #text: string;
  readonly #isAscii: boolean;
  #normalized: readonly Word[] | undefined;
  #plain: readonly Word[] | undefined;
  #numeric: readonly Word[] | undefined;
  #roman: readonly RomanWord[] | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#isAscii = isAscii(text);
  }

  /** Where the words of an answer stand in this text, in order and without gap. */
  find(answer: AnswerWords): { start: number; end: number }[] {
    const found = [
      ...occurrences(this.#asNormalized, answer.#asNormalized),
      ...occurrences(this.#asPlain, answer.#asPlain),
      ...occurrences(this.#asNumeric, answer.#asNumeric),
    ];
    // Both in Latin letters: there is no script to cross.
    if (this.#isAscii && answer.#isAscii) return found;
    return [...found, ...romanOccurrences(this.#asRoman, answer.#asRoman)];
  }

  /** As exact match normalises them. */
  get #asNormalized(): readonly Word[] {
    this.#normalized ??= normalizedWords(this.#text);
    return this.#normalized;
  }

  /** Runs of letters and digits without case and accents. */
  get #asPlain(): readonly Word[] {
    this.#plain ??= plainWords(this.#text);
    return this.#plain;
  }

  /** The same with spelled numbers in digits. */
  get #asNumeric(): readonly Word[] {
    this.#numeric ??= withDigits(joinThousands(this.#asPlain, this.#text));
    return this.#numeric;
  }

  get #asRoman(): readonly RomanWord[] {
    this.#roman ??= romanWords(this.#text);
    return this.#roman;
  }
}

/** Characters of all texts that are kept, and of a single one: a text takes some hundred times its length. */
const [MOST_KEPT, LONGEST_KEPT] = [65_536, 1024];
const kept = new Map<string, AnswerWords>();
let charactersKept = 0;

/**
 * The words of a text that is looked at again and again, as questions and gold answers are: every query and critique of
 * a group is compared with the same ones. Those used last are kept.
 */
export function keptWords(text: string): AnswerWords {
  const known = kept.get(text);
  if (known !== undefined) {
    kept.delete(text);
    kept.set(text, known);
    return known;
  }
  const words = new AnswerWords(text);
  if (text.length > LONGEST_KEPT) return words;
  kept.set(text, words);
  charactersKept += text.length + 1;
  for (const [oldest] of kept) {
    if (charactersKept <= MOST_KEPT) break;
    kept.delete(oldest);
    charactersKept -= oldest.length + 1;
  }
  return words;
}

function isAscii(text: string): boolean {
  return /^\p{ASCII}*$/u.test(text);
}

/**
 * The words of `normalizeAnswer`, which neither joins nor reorders what stands between white space. Punctuation around
 * a word is no part of it, so that a redacted sentence keeps its end.
 */
function normalizedWords(text: string): Word[] {
  return [...text.matchAll(/[\p{L}\p{N}](?:\S*[\p{L}\p{N}\p{M}])?/gu)].flatMap(({ 0: word, index }) =>
    normalized(word).map((form) => ({ form, start: index, end: index + word.length })),
  );
}

/** Most words are plain ones, for which it need not be asked. */
function normalized(word: string): string[] {
  if (!PLAIN.test(word)) return normalizeAnswer(word).split(" ").filter(Boolean);
  const form = word.toLowerCase();
  return ARTICLES.has(form) ? [] : [form];
}

const PLAIN = /^[a-z0-9]+$/i;
const ARTICLES: ReadonlySet<string> = new Set(["a", "an", "the"]);

/** But for articles. What is invisible inside a word, e.g. a zero-width joiner, does not split it. */
function plainWords(text: string): Word[] {
  return terms(text)
    .map(({ word, start, end }) => ({ form: fold(word), start, end }))
    .filter(({ form }) => form !== "" && !ARTICLES.has(form));
}

const INVISIBLE = /\p{Cf}+/gu;
/** What {@link TERM} is there. */
const ASCII_TERM = /[a-z0-9]+/gi;

function terms(text: string): { word: string; start: number; end: number }[] {
  INVISIBLE.lastIndex = 0;
  if (isAscii(text) || !INVISIBLE.test(text)) {
    return [...text.matchAll(isAscii(text) ? ASCII_TERM : TERM)].map(({ 0: word, index }) => ({
      word,
      start: index,
      end: index + word.length,
    }));
  }
  // Where each character that is left was.
  const places = [...text].reduce<{ place: number; units: number[]; visible: string }>(
    ({ place, units, visible }, character) => {
      const shown = character.replace(INVISIBLE, "");
      for (let i = 0; i < shown.length; i++) units.push(place + i);
      return { place: place + character.length, units, visible: visible + shown };
    },
    { place: 0, units: [], visible: "" },
  );
  return [...places.visible.matchAll(TERM)].map(({ 0: word, index }) => ({
    word,
    start: places.units[index] as number,
    end: (places.units[index + word.length - 1] as number) + 1,
  }));
}

/** Accents go by decomposition; letters that have none to decompose, such as ø, ł and ß, by their Latin spelling. */
function fold(word: string): string {
  if (isAscii(word)) return word.toLowerCase();
  const bare = word.normalize("NFKD").replace(/\p{M}/gu, "");
  return (isLatin(bare) ? anyAscii(bare) : bare).toLowerCase();
}

function isLatin(word: string): boolean {
  return /^[\p{Script=Latin}\p{N}]*$/u.test(word);
}

/** "12,500" is one number. */
function joinThousands(words: readonly Word[], text: string): Word[] {
  const joined: Word[] = [];
  for (const word of words) {
    const last = joined.at(-1);
    const continues =
      last !== undefined &&
      /^\d+$/.test(last.form) &&
      /^\d{3}$/.test(word.form) &&
      text.slice(last.end, word.start) === ",";
    if (continues) joined[joined.length - 1] = { ...last, form: last.form + word.form, end: word.end };
    else joined.push(word);
  }
  return joined;
}

function withDigits(words: readonly Word[]): Word[] {
  const forms = words.map(({ form }) => form);
  const joined: Word[] = [];
  for (let i = 0; i < words.length; ) {
    const { length = 1, digits } = spelledNumber(forms, i) ?? {};
    const first = words[i] as Word;
    joined.push({
      form: digits ?? first.form,
      start: first.start,
      end: (words[i + length - 1] as Word).end,
    });
    i += length;
  }
  return joined;
}

function romanWords(text: string): RomanWord[] {
  return terms(text)
    .map(({ word, start, end }) => {
      const form = anyAscii(word.normalize("NFKC"))
        .toLowerCase()
        .replace(/[^a-z0-9]/g, "");
      return { form, start, end, latin: isLatin(word.normalize("NFKD").replace(/\p{M}/gu, "")) };
    })
    .filter(({ form }) => form !== "");
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

/**
 * Occurrences across scripts: one side in Latin letters, the other not. Words may be divided differently, since the
 * scripts without spaces give one per character. Within a script this would find homophones.
 */
function romanOccurrences(
  words: readonly RomanWord[],
  answer: readonly RomanWord[],
): { start: number; end: number }[] {
  const wanted = answer.map(({ form }) => form).join("");
  // Shorter ones would be found by chance.
  if (wanted.length < 4) return [];
  const answerLatin = answer.every(({ latin }) => latin);
  if (answerLatin && words.every(({ latin }) => latin)) return [];
  const found: { start: number; end: number }[] = [];
  for (let first = 0; first < words.length; first++) {
    let spelled = "";
    let foreign = false;
    for (let last = first; last < words.length && wanted.startsWith(spelled); last++) {
      const { form, latin, end } = words[last] as RomanWord;
      spelled += form;
      foreign ||= !latin;
      if (spelled !== wanted) continue;
      if (foreign === answerLatin) found.push({ start: (words[first] as RomanWord).start, end });
      break;
    }
  }
  return found;
}

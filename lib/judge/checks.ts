import { TERM } from "../retrieval/analyzer.js";
import { cutText } from "../retrieval/cut.js";
import type { Critique } from "./critique.js";
import type { JudgeInput } from "./input.js";

/** Which cheap checks a critique has to pass; see `CritiqueFailure`. */
export interface CritiqueChecks {
  /** `wrong-language`. Default true. */
  language?: boolean | undefined;
  /** `off-topic`. Default true. */
  topic?: boolean | undefined;
}

/** The scripts that are told apart. Japanese and Korean mix theirs, so each counts as one. */
const SCRIPTS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ["Latin", /\p{Script=Latin}/u],
  ["Cyrillic", /\p{Script=Cyrillic}/u],
  ["Greek", /\p{Script=Greek}/u],
  ["Arabic", /\p{Script=Arabic}/u],
  ["Hebrew", /\p{Script=Hebrew}/u],
  ["Devanagari", /\p{Script=Devanagari}/u],
  ["Thai", /\p{Script=Thai}/u],
  [
    "East Asian",
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u,
  ],
];
/** Of passages, in characters: enough for the names in them. */
const READ_PER_PASSAGE = 4096;

/**
 * A critique that passes the checks, or the failure that it is.
 *
 * Both look at words only. The language check tells scripts apart, not languages that share one. The topic check finds
 * advice that would fit any question ("use more specific queries"), and critiques of another trajectory.
 */
export function checkCritique(critique: Critique, input: JudgeInput, checks: CritiqueChecks = {}): Critique {
  if (critique.status !== "ok") return critique;
  const { language = true, topic = true } = checks;
  const raw = critique.raw === undefined ? {} : { raw: critique.raw };
  if (language && isInOtherScript(critique.text, input.question)) {
    return {
      status: "wrong-language",
      reason: "most letters are of a script that the question has not",
      ...raw,
    };
  }
  if (topic && isOffTopic(critique.text, input)) {
    return { status: "off-topic", reason: "the critique names nothing that the trajectory is about", ...raw };
  }
  return critique;
}

function isInOtherScript(text: string, question: string): boolean {
  const letters = [...text].filter((character) => /\p{L}/u.test(character));
  const asked = SCRIPTS.filter(([, pattern]) => pattern.test(question));
  if (letters.length === 0 || asked.length === 0) return false;
  const familiar = letters.filter((letter) => asked.some(([, pattern]) => pattern.test(letter)));
  return 2 * familiar.length < letters.length;
}

/**
 * Words that say what a critique is about: from the fields that name things any content word counts, from passages only
 * names and numbers, since every common word is in some passage.
 */
function isOffTopic(text: string, input: JudgeInput): boolean {
  const words = contentWords(text);
  const named = [
    input.question,
    input.answer ?? "",
    ...(input.goldAnswers ?? []),
    ...input.steps.flatMap(({ query, passages }) => [query, ...passages.map(({ title }) => title)]),
  ];
  const known = new Set(named.flatMap(contentWords));
  if (words.some((word) => known.has(word))) return false;
  for (const { text: passage } of input.steps.flatMap((step) => step.passages)) {
    for (const name of namesOf(cutText(passage, READ_PER_PASSAGE))) known.add(name);
  }
  return !words.some((word) => known.has(word));
}

/** Too common, in English or in advice on searching, to say what a text is about. */
const COMMON: ReadonlySet<string> = new Set(
  (
    "a about after again agent all also an and another any answer answers any anything are as ask at attempt be because been before " +
    "being better both but by can cannot correct could did different do does done each either else ensure every exact find " +
    "finding first focus for from further general get give given go had has have he her here him his how i if in include " +
    "including incorrect information instead into is issue it its itself just keep know look looking made make many may me " +
    "might more most must my name named names need needed new next no nor not of off on once one only or order other " +
    "others our out over page pages piece plan please query queries question questions rather relevant result results " +
    "reword same search searched searches searching second see separate separately she should since so some something " +
    "specific specifically state step still strategy such sure term terms than that the their them then there these they " +
    "thing this those three through time to together too try trying two under until up use used using verify very was " +
    "we were what when where whether which while who whom whose why will with within without word words would wrong you your"
  ).split(" "),
);

function contentWords(text: string): string[] {
  return termsOf(text)
    .map(stem)
    .filter((word) => word.length > 1 && !COMMON.has(word));
}

/** Capitalised words that are not the first of a sentence, and numbers. */
function namesOf(text: string): string[] {
  return [
    ...text.matchAll(/(?<![.!?]\s+|^\s*)(?<![\p{L}\p{N}])(?:\p{Lu}[\p{L}\p{M}\p{N}]+|\p{N}{2,})/gu),
  ].flatMap(({ 0: name }) => contentWords(name));
}

function termsOf(text: string): string[] {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().match(TERM) ?? [];
}

/** "director's" and "directors" are about a director. */
function stem(word: string): string {
  return word.length > 4 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}

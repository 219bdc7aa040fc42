const UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const TEENS = [
  "ten",
  "eleven",
  "twelve",
  "thirteen",
  "fourteen",
  "fifteen",
  "sixteen",
  "seventeen",
  "eighteen",
  "nineteen",
];
const TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const ORDINALS: readonly [ordinal: string, cardinal: string][] = [
  ["first", "one"],
  ["second", "two"],
  ["third", "three"],
  ["fifth", "five"],
  ["eighth", "eight"],
  ["ninth", "nine"],
  ["twelfth", "twelve"],
];

const BELOW_HUNDRED = new Map<string, number>([
  ...[...UNITS, ...TEENS].map((word, value): [string, number] => [word, value]),
  ...TENS.map((word, i): [string, number] => [word, 20 + 10 * i]),
]);
const SCALES = new Map([
  ["thousand", 1e3],
  ["million", 1e6],
  ["billion", 1e9],
  ["trillion", 1e12],
]);
const CARDINAL_OF = new Map<string, string>([
  ...ORDINALS,
  ...[...BELOW_HUNDRED.keys(), "hundred", ...SCALES.keys()].map((word): [string, string] => [
    `${word.replace(/y$/, "ie")}th`,
    word,
  ]),
]);

/** A number that words spell. */
export interface SpelledNumber {
  /** In digits, an ordinal with its ending: `1975`, `21st`. */
  digits: string;
  /** How many words it takes. */
  length: number;
}

/**
 * Reads the English number that begins at a word: cardinals and ordinals below 10^15 ("two hundred and five",
 * "twenty first"), and years in pairs ("nineteen seventy five", "twenty oh one").
 *
 * @param words - In lower case, without hyphens.
 * @param first - Where the number begins.
 * @returns `undefined` if the word begins none, and for "one", "first" and "second" alone: they mostly are no numbers.
 */
export function spelledNumber(words: readonly string[], first: number): SpelledNumber | undefined {
  const number = yearInPairs(words, first) ?? cardinalOrOrdinal(words, first);
  if (number === undefined) return undefined;
  const alone = number.length === 1 && /^(?:one|first|second)$/.test(words[first] ?? "");
  return alone ? undefined : number;
}

function cardinalOrOrdinal(words: readonly string[], first: number): SpelledNumber | undefined {
  let total = 0;
  let group = 0;
  let scale = Number.POSITIVE_INFINITY;
  /** The smallest number that may no longer follow within the group. */
  let room = 1000;
  let length = 0;
  let ordinal = false;
  for (let at = first; at < words.length && !ordinal; at++) {
    let word = words[at] as string;
    // "two hundred and five", but not "and five" nor "five and six".
    if (
      word === "and" &&
      length > 0 &&
      (room === 100 || (room === 1000 && group === 0)) &&
      at + 1 < words.length
    ) {
      const next = words[at + 1] as string;
      if (!BELOW_HUNDRED.has(CARDINAL_OF.get(next) ?? next)) break;
      at++;
      word = next;
    }
    ordinal = CARDINAL_OF.has(word);
    word = CARDINAL_OF.get(word) ?? word;
    const small = BELOW_HUNDRED.get(word);
    const large = SCALES.get(word);
    if (small !== undefined && small < room && !(small === 0 && length > 0)) {
      group += small;
      room = small >= 20 ? 10 : 0;
    } else if (word === "hundred" && group < 100 && (length === 0 || (group > 0 && room < 1000))) {
      // Of "a hundred" only the second word is here.
      group = 100 * (group || 1);
      room = 100;
    } else if (large !== undefined && large < scale && (length === 0 || group > 0)) {
      total += (group || 1) * large;
      group = 0;
      room = 1000;
      scale = large;
    } else {
      ordinal = false;
      break;
    }
    length = at - first + 1;
  }
  return length === 0 ? undefined : { digits: withEnding(total + group, ordinal), length };
}

/** Two numbers below a hundred, the first of them at least ten: "nineteen seventy five", "twenty oh one". */
function yearInPairs(words: readonly string[], first: number): SpelledNumber | undefined {
  const century = pair(words, first);
  if (century === undefined || century.value < 10) return undefined;
  const at = first + century.length;
  const zero = words[at] === "oh" || words[at] === "o";
  const rest = pair(words, zero ? at + 1 : at);
  if (rest === undefined || rest.value < 1 || zero !== rest.value < 10) return undefined;
  const digits = `${century.value}${String(rest.value).padStart(2, "0")}`;
  return { digits, length: century.length + rest.length + (zero ? 1 : 0) };
}

function pair(words: readonly string[], at: number): { value: number; length: number } | undefined {
  const value = BELOW_HUNDRED.get(words[at] ?? "");
  if (value === undefined) return undefined;
  const unit = BELOW_HUNDRED.get(words[at + 1] ?? "");
  if (value >= 20 && unit !== undefined && unit > 0 && unit < 10) return { value: value + unit, length: 2 };
  return { value, length: 1 };
}

function withEnding(value: number, ordinal: boolean): string {
  if (!ordinal) return String(value);
  const tens = Math.floor(value / 10) % 10;
  const ending = tens === 1 ? "th" : (["th", "st", "nd", "rd"][value % 10] ?? "th");
  return `${value}${ending}`;
}

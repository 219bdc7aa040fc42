/**
 * The words of the generated world. Every word is one token, so that a model of a few hundred thousand
 * parameters can read and write them.
 */

const ONSETS = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const NUCLEI = ["a", "e", "i", "o", "u"];

/** `count` different two-syllable stems with an ending that tells what the word names. */
function stems(count: number, ending: string, offset: number): string[] {
  const words: string[] = [];
  // A stride coprime to the number of stems (70 * 70) walks through all of them without a repeat.
  for (let i = 0; i < count; i++) {
    const at = (offset + i * 1_237) % 4_900;
    const [first, second] = [Math.floor(at / 70), at % 70];
    const syllable = (n: number) => `${ONSETS[n % 14]}${NUCLEI[Math.floor(n / 14)]}`;
    const word = syllable(first) + syllable(second) + ending;
    words.push(word.charAt(0).toUpperCase() + word.slice(1));
  }
  return words;
}

/** Parts of names. A person is `first last`, a book `title title year`, a press and a town two words, a land one. */
export const NAME_PARTS = {
  first: stems(24, "l", 11),
  last: stems(24, "sen", 503),
  titleHead: stems(20, "ing", 1_009),
  titleTail: stems(20, "or", 1_511),
  year: Array.from({ length: 24 }, (_, i) => String(1901 + i)),
  pressHead: stems(16, "ark", 2_003),
  pressTail: stems(6, "press", 2_503),
  townHead: stems(6, "ford", 3_001),
  townTail: stems(16, "by", 3_511),
  land: stems(16, "mark", 4_001),
} as const;

/** The kinds of entity that have a passage, and those that only occur as an answer. */
export type Kind = "book" | "person" | "press" | "town" | "land";

/** What one entity says about another. */
export type Relation =
  | "author"
  | "illustrator"
  | "publisher"
  | "birthplace"
  | "employer"
  | "mentor"
  | "seat"
  | "founder"
  | "country"
  | "mayor";

/** Relations of every kind, in the order in which its passage tells them, with the words that tell them. */
export const RELATIONS: Readonly<
  Record<Kind, readonly { relation: Relation; phrase: string; range: Kind }[]>
> = {
  book: [
    { relation: "author", phrase: "was written by", range: "person" },
    { relation: "illustrator", phrase: ", drawn by", range: "person" },
    { relation: "publisher", phrase: "and printed by", range: "press" },
  ],
  person: [
    { relation: "birthplace", phrase: "was born in", range: "town" },
    { relation: "employer", phrase: ", worked for", range: "press" },
    { relation: "mentor", phrase: "and learned from", range: "person" },
  ],
  press: [
    { relation: "seat", phrase: "sits in", range: "town" },
    { relation: "founder", phrase: "and was started by", range: "person" },
  ],
  town: [
    { relation: "country", phrase: "lies in", range: "land" },
    { relation: "mayor", phrase: "and is led by", range: "person" },
  ],
  land: [],
};

/** The tags of the world's protocol. */
export const TAGS = {
  searchOpen: "<search>",
  searchClose: "</search>",
  informationOpen: "<information>",
  informationClose: "</information>",
  answerOpen: "<answer>",
  answerClose: "</answer>",
} as const;

const FUNCTION_WORDS = [
  "hint",
  ":",
  "question",
  "the",
  "of",
  "?",
  ".",
  ",",
  "then",
  "search",
  "use",
  "full",
  "names",
];

/** Every word of the world's language once, tags first. */
export function worldWords(): string[] {
  const phrases = Object.values(RELATIONS).flatMap((list) => list.flatMap(({ phrase }) => phrase.split(" ")));
  const relations = Object.values(RELATIONS).flatMap((list) => list.map(({ relation }) => relation));
  const names = Object.values(NAME_PARTS).flat();
  return [...new Set([...Object.values(TAGS), ...FUNCTION_WORDS, ...phrases, ...relations, ...names])];
}

/** Punctuation that follows its word without a space. */
const ATTACHED = new Set([",", ".", "?", ":"]);

/**
 * A `tokenizer.json` (Unigram model, Metaspace pre-tokenizer) in which each word of the world is one token.
 * Words carry the space before them; punctuation does not. Everything else is the unknown token.
 */
export function worldTokenizerJson(): Record<string, unknown> {
  const pieces = worldWords().map((word) => (ATTACHED.has(word) ? word : `\u2581${word}`));
  const control = ["<pad>", "<s>", "</s>"];
  const vocabulary: [string, number][] = [
    ...control.map((token): [string, number] => [token, 0]),
    ["<unk>", 0],
    ...pieces.map((piece): [string, number] => [piece, -1]),
  ];
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: control.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: { type: "Metaspace", replacement: "\u2581", prepend_scheme: "always", split: true },
    post_processor: null,
    decoder: { type: "Metaspace", replacement: "\u2581", prepend_scheme: "always", split: true },
    model: { type: "Unigram", unk_id: 3, vocab: vocabulary, byte_fallback: false },
  };
}

/** The `tokenizer_config.json` that belongs to {@link worldTokenizerJson}. */
export function worldTokenizerConfig(): Record<string, unknown> {
  return {
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: "<s>",
    eos_token: "</s>",
    pad_token: "<pad>",
    unk_token: "<unk>",
    clean_up_tokenization_spaces: false,
    model_max_length: 256,
  };
}

import type { Passage } from "hindsearch";

/** Function words in the order of their frequency in English. */
const FUNCTION_WORDS =
  "the of and in to a was is for as on by with he that it from at his an were are which this be had not or has also".split(
    " ",
  );
/** Word types, and the shape of their frequencies: f(rank) ~ 1 / (rank + Q)^S (Mandelbrot 1953). */
const [TYPES, S, Q] = [600_000, 1.05, 2.7];
/** Topics, words of each, and the share of a passage's words that are its topic's. */
const [TOPICS, TOPIC_WORDS, TOPIC_SHARE] = [20_000, 200, 0.3];

/**
 * Passages of 80 to 120 words with the word frequencies of a natural language, each about a topic; and questions of
 * 11 to 14 words about them. Passage i is the same in a corpus of any size.
 */
export class SyntheticCorpus {
  readonly #cumulative = new Float64Array(TYPES);

  constructor(readonly size: number) {
    let sum = 0;
    for (let rank = 0; rank < TYPES; rank++) {
      sum += (rank + 1 + Q) ** -S;
      this.#cumulative[rank] = sum;
    }
  }

  *[Symbol.iterator](): Generator<Passage, void> {
    for (let i = 0; i < this.size; i++) yield this.passage(i);
  }

  passage(i: number): Passage {
    const random = mulberry(i + 1);
    const topic = Math.floor(random() * TOPICS);
    const words = Array.from({ length: 80 + Math.floor(random() * 41) }, () => this.#word(random, topic));
    return {
      id: String(i),
      title: `${topicWord(random, topic)} ${topicWord(random, topic)}`,
      text: words.join(" "),
    };
  }

  /** Four to six function words, two frequent words, and four of the distinctive words of one passage. */
  question(i: number): string {
    const random = mulberry(0x51ed270b ^ i);
    const { text } = this.passage(Math.floor(random() * this.size));
    const distinctive = text.split(" ").filter((word) => /^[a-z]+\d{4,}$/.test(word));
    const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] ?? "x";
    const words = [
      ...Array.from({ length: 4 + Math.floor(random() * 3) }, () => pick(FUNCTION_WORDS)),
      ...Array.from({ length: 2 }, () => spell(40 + Math.floor(random() * 400))),
      ...Array.from({ length: 4 }, () => pick(distinctive)),
    ];
    return `${words
      .map((word) => [random(), word] as const)
      .sort(([x], [y]) => x - y)
      .map(([, word]) => word)
      .join(" ")}?`;
  }

  #word(random: () => number, topic: number): string {
    if (random() < TOPIC_SHARE) return topicWord(random, topic);
    const target = random() * (this.#cumulative[TYPES - 1] as number);
    let low = 0;
    for (let high = TYPES - 1; low < high; ) {
      const middle = (low + high) >>> 1;
      if ((this.#cumulative[middle] as number) < target) low = middle + 1;
      else high = middle;
    }
    return spell(low);
  }
}

function topicWord(random: () => number, topic: number): string {
  // Squared: a few of a topic's words are frequent in it.
  const k = Math.floor(random() ** 2 * TOPIC_WORDS);
  return spell(1000 + ((topic * 7919 + k * 104_729) % (TYPES - 1000)));
}

/** A word for a rank; the number keeps them apart. */
function spell(rank: number): string {
  return (
    FUNCTION_WORDS[rank] ?? `${"bcdfglmnprst"[rank % 12]}${"aeiou"[rank % 5]}${"nrstlm"[rank % 6]}${rank}`
  );
}

/** Mulberry32: a fast generator, the same on every machine. */
function mulberry(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

import { HindsearchError } from "../errors.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import { cutText } from "../retrieval/cut.js";
import type { Passage } from "../retrieval/passage.js";
import type { SearchProtocol } from "./protocol.js";

/**
 * Characters per token that are encoded at most: passages of megabytes would take minutes. Text has three to five; only
 * what is mostly white space or ruler lines has more than this, and is cut sooner then.
 */
const CHARACTERS_PER_TOKEN = 16;

/** Not for any language: the same text is cut alike on every machine. */
const SENTENCES = new Intl.Segmenter("und", { granularity: "sentence" });

/** What is inserted after a search. */
export interface Observation {
  /** Tags included. */
  tokens: Int32Array;
  /** The first passages, as many as the limit left at least a token of. */
  shown: readonly Passage[];
}

/** Encodes what a search returned, tags around it. */
export class ObservationEncoder {
  readonly #protocol: SearchProtocol;
  readonly #tokenizer: Tokenizer;
  readonly #opening: readonly number[];
  readonly #closing: readonly number[];
  readonly #room: number;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` if `maxObservationTokens` leaves no room between the tags. */
  constructor(protocol: SearchProtocol, tokenizer: Tokenizer) {
    const { before, after } = protocol.observationFrame;
    const { open, close } = protocol.tags.information;
    const encode = (text: string) => tokenizer.encodePrompt([{ text, trusted: true }], { atStart: false });
    this.#protocol = protocol;
    this.#tokenizer = tokenizer;
    this.#opening = encode(before + open);
    this.#closing = encode(close + after);
    this.#room = protocol.maxObservationTokens - this.#opening.length - this.#closing.length;
    if (this.#room >= 1) return;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Protocol ${protocol.name}: maxObservationTokens is ${protocol.maxObservationTokens}, but the tags alone take ` +
        `${this.#opening.length + this.#closing.length} tokens; give the passages some room.`,
    );
  }

  /**
   * The tokens to insert. The passages are foreign text: they are encoded apart from the tags, without control tokens,
   * and cut to what the limit leaves between the tags, so that these are always whole.
   */
  encode(passages: readonly Passage[]): Observation {
    const whole = this.#protocol.formatPassages(passages);
    const text = cutText(whole, CHARACTERS_PER_TOKEN * this.#room);
    const tokens = this.#tokenizer.encodeText(text);
    const fits = text === whole && tokens.length <= this.#room;
    const sentences = fits || this.#protocol.cutPassages === "token" ? undefined : this.#sentences(text);
    const body = sentences ?? tokens.slice(0, this.#room);
    const shown = fits ? passages : this.#shown(passages, body.length);
    return { tokens: Int32Array.from([...this.#opening, ...body, ...this.#closing]), shown };
  }

  /** The passages of which something stands in the first tokens of their text. */
  #shown(passages: readonly Passage[], tokens: number): readonly Passage[] {
    for (let count = passages.length; count > 1; count--) {
      const before = this.#protocol.formatPassages(passages.slice(0, count - 1));
      const text = cutText(before, CHARACTERS_PER_TOKEN * this.#room);
      if (text === before && this.#tokenizer.encodeText(text).length < tokens)
        return passages.slice(0, count);
    }
    return passages.slice(0, 1);
  }

  /** The tokens of as many whole sentences as fit; `undefined` if none does. */
  #sentences(text: string): readonly number[] | undefined {
    const start = text.length - text.trimStart().length;
    const ends = [...SENTENCES.segment(text)]
      .map(({ index, segment }) => index + segment.trimEnd().length)
      // White space alone is no sentence.
      .filter((end) => end > start);
    // The last sentence may have been cut with the text.
    let [low, high] = [0, ends.length - 1];
    let best: readonly number[] | undefined;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const tokens = this.#tokenizer.encodeText(text.slice(0, ends[middle]));
      if (tokens.length <= this.#room) {
        best = tokens;
        low = middle + 1;
      } else high = middle;
    }
    return best;
  }
}

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
   * and cut at a token to what the limit leaves between the tags, so that these are always whole.
   */
  encode(passages: readonly Passage[]): Int32Array {
    const text = cutText(this.#protocol.formatPassages(passages), CHARACTERS_PER_TOKEN * this.#room);
    const body = this.#tokenizer.encodeText(text).slice(0, this.#room);
    return Int32Array.from([...this.#opening, ...body, ...this.#closing]);
  }
}

import { Tokenizer as Library } from "@huggingface/tokenizers";
import { HindsearchError } from "../errors.js";
import { isJsonObject, type JsonObject } from "./json-file.js";
import {
  flatten,
  invalidTokenizer,
  quote,
  type TokenizerFile,
  unsupportedTokenizer,
} from "./tokenizer-file.js";

const SPACE_MARK = "\u2581";

/** GPT-2's split, which `ByteLevel` makes by itself unless told not to. */
const GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * Encodes text by a tokenizer's rules as if it had no added tokens. Those are not only left unmatched: they are taken
 * out of the vocabulary, so that no path through the algorithm leads to their ids.
 *
 * @internal
 */
export class PlainEncoder {
  readonly #library: Library;
  readonly #control: ReadonlySet<number>;
  readonly #words = new Map<string, readonly number[]>();
  /** Whether a space is put before the first word of a text. */
  readonly prefixesSpace: boolean;

  private constructor(library: Library, control: ReadonlySet<number>, prefixesSpace: boolean) {
    this.#library = library;
    this.#control = control;
    this.prefixesSpace = prefixesSpace;
  }

  /** Yields where the event loop may have its turn. */
  static *build(file: TokenizerFile): Generator<undefined, PlainEncoder, undefined> {
    const control = new Set(file.added.map(({ id }) => id));
    const normalizers = checkNormalizers(file);
    const preTokenizers = checkPreTokenizers(file);
    const model = withoutControlTokens(file, control);
    yield;
    const json = {
      // The merges come below: the library takes the whole vocabulary and all merges in one go.
      model: model.type === "BPE" ? { ...model, merges: [] } : model,
      added_tokens: [],
      normalizer: { type: "Sequence", normalizers },
      pre_tokenizer: { type: "Sequence", pretokenizers: preTokenizers.flatMap(preTokenizerSteps) },
      post_processor: null,
      decoder: null,
    };
    let library: Library;
    try {
      // The library takes the unknown token of a WordLevel model from the second argument.
      library = new Library(json, { unk_token: file.model.unk_token });
    } catch (cause) {
      throw new HindsearchError("INVALID_CHECKPOINT", `tokenizer.json: ${(cause as Error).message}.`, {
        cause,
      });
    }
    if (model.type === "BPE") yield* addMerges(library, model.merges as readonly unknown[]);
    const prefixesSpace =
      file.scheme === "words" ||
      normalizers.some(({ type }) => type === "Prepend") ||
      preTokenizers.some(({ type, prepend_scheme: scheme }) => type === "Metaspace" && scheme !== "never");
    return new PlainEncoder(library, control, prefixesSpace);
  }

  /**
   * @param text - Any text; lone surrogates become U+FFFD.
   * @param atStart - Whether it stands at the start of a sequence.
   */
  encode(text: string, atStart: boolean): number[] {
    const { normalizer, pre_tokenizer: preTokenizer } = this.#library;
    if (normalizer === null || preTokenizer === null) throw new Error("built with both");
    const ids: number[] = [];
    if (text === "") return ids;
    const words = preTokenizer.pre_tokenize(normalizer.normalize(text), {
      section_index: atStart ? 0 : 1,
    });
    // Word by word: given all of them, the library joins unknown tokens across words, unlike the reference.
    for (const word of words) for (const id of this.#word(word)) ids.push(id);
    return ids;
  }

  #word(word: string): readonly number[] {
    const known = this.#words.get(word);
    if (known) return known;
    const ids = this.#encodeWord(word);
    if (word.length <= LONGEST_KEPT) {
      if (this.#words.size === MOST_KEPT) this.#words.clear();
      this.#words.set(word, ids);
    }
    return ids;
  }

  #encodeWord(word: string): readonly number[] {
    const { model } = this.#library;
    if (model === null) throw new Error("built with one");
    return Array.from(model._call([word]), (token) => {
      const id = model.tokens_to_ids.get(token) ?? model.unk_token_id;
      if (id !== undefined && !this.#control.has(id)) return id;
      throw new HindsearchError(
        "INTERNAL",
        `Plain text was encoded to id ${id}; please report this tokenizer.`,
      );
    });
  }
}

/** Words whose ids are kept, since text repeats few words most of the time: some megabytes. */
const MOST_KEPT = 32_768;

/** In characters. Longer ones seldom come again, and hostile ones would fill the memory. */
const LONGEST_KEPT = 64;

/** Merges added between two turns of the event loop. */
const MERGES = 16_384;

/** Gives the library's BPE model its merges in the form in which it keeps them: the pair as JSON, and its rank. */
function* addMerges(library: Library, merges: readonly unknown[]): Generator<undefined, void, undefined> {
  const { bpe_ranks: ranks } = library.model as { bpe_ranks?: unknown };
  if (!(ranks instanceof Map)) throw new Error("the library keeps its merges elsewhere");
  for (const [rank, merge] of merges.entries()) {
    if (rank % MERGES === 0) yield;
    ranks.set(JSON.stringify(partsOfMerge(merge)), rank);
  }
}

/** The two tokens that a merge joins; the older form has both in one text. */
function partsOfMerge(merge: unknown): unknown {
  return typeof merge === "string" ? merge.split(" ") : merge;
}

/** The normalizers that the library applies as the reference implementation does. */
function checkNormalizers(file: TokenizerFile): JsonObject[] {
  const steps = flatten(file.json.normalizer, "normalizers");
  for (const { type, prepend, content, pattern } of steps) {
    const supported =
      ["NFC", "NFD", "NFKC", "NFKD"].includes(type as string) ||
      (type === "Prepend" && prepend === SPACE_MARK) ||
      // A dollar sign would be read as a reference to a match.
      (type === "Replace" && isPattern(pattern) && typeof content === "string" && !content.includes("$"));
    if (!supported)
      throw unsupportedTokenizer(`the normalizer ${JSON.stringify(type)} is not supported in this form`);
  }
  return steps;
}

/** The pre-tokenizers that the library applies, or can be made to apply, as the reference implementation does. */
function checkPreTokenizers(file: TokenizerFile): JsonObject[] {
  const steps = flatten(file.json.pre_tokenizer, "pretokenizers");
  for (const { type, behavior, invert, pattern, replacement, add_prefix_space: prefix } of steps) {
    const supported =
      ["Digits", "WhitespaceSplit"].includes(type as string) ||
      (type === "ByteLevel" && prefix !== true) ||
      (type === "Metaspace" && (replacement ?? SPACE_MARK) === SPACE_MARK) ||
      (type === "Split" &&
        isPattern(pattern) &&
        (behavior === "Removed" || (behavior === "Isolated" && invert !== true)));
    if (!supported) {
      throw unsupportedTokenizer(`the pre-tokenizer ${JSON.stringify(type)} is not supported in this form`);
    }
  }
  if (file.scheme === "words" && !steps.some(({ type }) => type === "WhitespaceSplit")) {
    throw unsupportedTokenizer("a WordLevel model must split at white space (WhitespaceSplit)");
  }
  return steps;
}

/** Says in patterns what the library does otherwise: white space as Unicode has it, and Metaspace's `split`. */
function preTokenizerSteps(step: JsonObject): JsonObject[] {
  const isolate = (regex: string) => ({
    type: "Split",
    pattern: { Regex: regex },
    behavior: "Isolated",
    invert: false,
  });
  switch (step.type) {
    case "WhitespaceSplit":
      return [{ ...isolate("\\s+"), behavior: "Removed" }];
    case "ByteLevel":
      return step.use_regex === false ? [step] : [isolate(GPT2_SPLIT), { ...step, use_regex: false }];
    case "Metaspace":
      return step.split === false ? [step] : [step, isolate(`${SPACE_MARK}[^${SPACE_MARK}]*`)];
    default:
      return [step];
  }
}

/** The library warns on the console and drops all text where the pattern is of another form. */
function isPattern(pattern: unknown): boolean {
  return isJsonObject(pattern) && (typeof pattern.Regex === "string" || typeof pattern.String === "string");
}

function withoutControlTokens(file: TokenizerFile, control: ReadonlySet<number>): JsonObject {
  const { model, ids, added } = file;
  if (model.type === "Unigram") {
    const vocab = (model.vocab as [string, number][]).map(([piece, score], id) =>
      // No text has the empty piece in it, and the ids of the others stay.
      control.has(id) ? ["", 0] : [piece, score],
    );
    return { ...model, vocab };
  }
  const isPlain = (piece: string) => {
    const id = ids.get(piece);
    return id !== undefined && !control.has(id);
  };
  if (model.type === "BPE") {
    checkMerges(model, isPlain);
    checkAlphabet(file, isPlain);
  }
  const vocabulary = model.vocab as Record<string, number>;
  if (!added.some(({ content }) => Object.hasOwn(vocabulary, content))) return model;
  return {
    ...model,
    vocab: Object.fromEntries(Object.entries(vocabulary).filter(([piece]) => isPlain(piece))),
  };
}

/** What a merge makes must be a token: the library drops what is not. */
function checkMerges(model: JsonObject, isPlain: (piece: string) => boolean): void {
  if (!Array.isArray(model.merges)) throw invalidTokenizer("model.merges must be a list");
  for (const merge of model.merges) {
    const parts = partsOfMerge(merge);
    const [left, right] = Array.isArray(parts) && parts.length === 2 ? parts : [];
    if (typeof left !== "string" || typeof right !== "string") {
      throw invalidTokenizer(`${quote(JSON.stringify(merge))} is not a merge of two tokens`);
    }
    if (isPlain(left + right)) continue;
    throw invalidTokenizer(`a merge makes ${quote(left + right)}, which is no token, or an added one`);
  }
}

/** Every byte must have a token where nothing else could stand for it. */
function checkAlphabet({ scheme, byteFallback }: TokenizerFile, isPlain: (piece: string) => boolean): void {
  if (scheme !== "byte-level" && !byteFallback) return;
  for (let byte = 0; byte < 256; byte++) {
    const piece = scheme === "byte-level" ? byteSymbol(byte) : fallbackPiece(byte);
    if (!isPlain(piece)) throw invalidTokenizer(`the token ${quote(piece)} of byte ${byte} is missing`);
  }
}

/**
 * The character that stands for a byte in byte-level BPE (GPT-2's table): itself if it is printable, else one of the
 * characters from U+0100 on, in order.
 *
 * @internal
 */
export function byteSymbol(byte: number): string {
  return BYTE_SYMBOLS[byte] as string;
}

const BYTE_SYMBOLS: readonly string[] = (() => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(printable ? byte : next++);
  });
})();

/** The token of a byte that no other token holds. @internal */
export function fallbackPiece(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

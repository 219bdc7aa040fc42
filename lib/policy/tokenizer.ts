import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { HindsearchError } from "../errors.js";
import { isJsonObject, type JsonObject, readJsonFile, readTextFile } from "./json-file.js";
import { PlainEncoder } from "./plain-encoder.js";
import { joinSegments, type PromptSegment } from "./segment.js";
import { type TokenBytes, tabulateTokenBytes } from "./token-bytes.js";
import { parseTokenizerFile, quote, type TokenizerFile } from "./tokenizer-file.js";

export type { PromptSegment } from "./segment.js";
export type { TokenBytes } from "./token-bytes.js";

/** Options of {@link Tokenizer.encodePrompt}. */
export interface EncodePromptOptions {
  /** Whether the segments start a sequence. Default true; false: they continue one. */
  atStart?: boolean;
  /** Put the BOS token first. Default false: a chat template writes it itself where the model wants one. */
  bos?: boolean;
}

/** Options of {@link Tokenizer.decode}. */
export interface DecodeOptions {
  /** The ids are a sequence from its start: leave out the space that encoding puts before the first word. */
  fromStart?: boolean;
}

/**
 * Text to token ids and back.
 *
 * An **added token** is one that is matched as a whole before any other rule, such as `<|im_end|>` or `<tool_call>`.
 * Only trusted text is searched for them; from any other text no added token can come, whatever it says.
 */
export interface Tokenizer {
  /** Number of ids: they are 0 to `size` - 1. A model may have more embedding rows; those stand for nothing. */
  readonly size: number;
  /** Ids that end a text according to the tokenizer's own files; may be empty. */
  readonly eosTokenIds: readonly number[];
  /** Id that starts a text; absent if the tokenizer has none. */
  readonly bosTokenId?: number;
  /** Whether transformers puts the BOS token before a text by default; here it is `bos` that decides. */
  readonly addsBos: boolean;
  /** The Jinja source of the chat template; `null` if there is none. */
  readonly chatTemplate: string | null;
  /** Contents of the tokens that have a role, as a template knows them: `bos_token`, `eos_token`, `pad_token`, `unk_token`. */
  readonly namedTokens: Readonly<Record<string, string>>;
  /** Contents of the added tokens. */
  readonly addedTokens: readonly string[];
  /**
   * Encodes text that continues a sequence and is not trusted: no id of an added token, no BOS. Lone surrogates become
   * U+FFFD. A tokenizer of the SentencePiece kind may put a space before it, as its files say.
   */
  encodeText(text: string): number[];
  /**
   * Encodes a prompt made of trusted and untrusted pieces. Trusted text is split at added tokens; what stands between
   * them, of either trust, is encoded as one stretch, so harmless text gets the ids that it has as a whole.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for `bos` without a BOS token.
   */
  encodePrompt(segments: readonly PromptSegment[], options?: EncodePromptOptions): number[];
  /**
   * The text of ids, byte for byte and without any clean-up. Special tokens have none. Bytes that are no UTF-8, such as a
   * character cut at the end, become U+FFFD. Decoding and encoding again need not give the same ids.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an id that does not exist.
   */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /** The bytes of every id. Shared, not to be changed. */
  tokenBytes(): TokenBytes;
  /** Whether `id` is an added token, which untrusted text can never yield. */
  isControl(id: number): boolean;
}

/**
 * Loads the tokenizer of a Hugging Face folder: `tokenizer.json`, with `tokenizer_config.json` and
 * `chat_template.jinja` where they exist. Byte-level BPE (Qwen, Llama 3), SentencePiece-like BPE and Unigram (Llama 2),
 * and WordLevel models are supported. One of 150,000 tokens takes about a second of this thread, in parts: parsing its JSON,
 * checking it and the tokenizer library's constructor cannot be divided and hold the event loop for 0.1 to 0.2 s each.
 *
 * A chat template is a program, and a pre-tokenizer may have a regular expression; both run in this process. They can do
 * nothing but take for ever: load only folders that you trust that far.
 *
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if a file is missing, damaged or contradicts itself,
 * `UNSUPPORTED_MODEL` for another kind of tokenizer, `IO`.
 */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const [json, config, template] = await Promise.all([
    readJsonFile(join(folder, "tokenizer.json"), 2 ** 28),
    readJsonFile(join(folder, "tokenizer_config.json"), 2 ** 26),
    readTextFile(join(folder, "chat_template.jinja"), 2 ** 22),
  ]);
  if (json === null) {
    throw new HindsearchError(
      "INVALID_CHECKPOINT",
      `${folder} has no tokenizer.json. Convert the tokenizer with transformers: ` +
        "AutoTokenizer.from_pretrained(folder, use_fast=True).save_pretrained(folder).",
    );
  }
  return createTokenizerInTurns(json, config ?? {}, template);
}

/**
 * {@link createTokenizer}, leaving the event loop its turn.
 *
 * @internal
 */
export async function createTokenizerInTurns(
  ...contents: Parameters<typeof createTokenizer>
): Promise<Tokenizer> {
  const building = buildTokenizer(...contents);
  for (;;) {
    await setImmediate();
    const { done, value } = building.next();
    if (done) return value;
  }
}

/**
 * A tokenizer from the contents of its files, built in one go: {@link loadTokenizer} leaves the event loop its turn.
 *
 * @param json - `tokenizer.json`.
 * @param config - `tokenizer_config.json`. Default: none.
 * @param chatTemplate - `chat_template.jinja`, which goes before the config's `chat_template`. Default: none.
 * @throws {@link HindsearchError} As {@link loadTokenizer}.
 */
export function createTokenizer(
  json: JsonObject,
  config: JsonObject = {},
  chatTemplate: string | null = null,
): Tokenizer {
  const building = buildTokenizer(json, config, chatTemplate);
  for (;;) {
    const { done, value } = building.next();
    if (done) return value;
  }
}

/** Yields where the event loop may have its turn. */
function* buildTokenizer(
  json: JsonObject,
  config: JsonObject = {},
  chatTemplate: string | null = null,
): Generator<undefined, Tokenizer, undefined> {
  const file = parseTokenizerFile(json, config);
  yield;
  const encoder = yield* PlainEncoder.build(file);
  yield;
  const table = tabulateTokenBytes(file);
  yield;
  return new FileTokenizer(file, encoder, table, config, chatTemplate);
}

const NAMED_TOKENS = ["bos_token", "eos_token", "pad_token", "unk_token"] as const;

class FileTokenizer implements Tokenizer {
  readonly size: number;
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId?: number;
  readonly addsBos: boolean;
  readonly chatTemplate: string | null;
  readonly namedTokens: Readonly<Record<string, string>>;
  readonly addedTokens: readonly string[];
  readonly #encoder: PlainEncoder;
  readonly #table: TokenBytes;
  readonly #addedIds: ReadonlyMap<string, number>;
  readonly #control: ReadonlySet<number>;
  readonly #splitter: RegExp;

  constructor(
    file: TokenizerFile,
    encoder: PlainEncoder,
    table: TokenBytes,
    config: JsonObject,
    chatTemplate: string | null,
  ) {
    this.#encoder = encoder;
    this.#table = table;
    this.size = file.pieces.length;
    this.addedTokens = file.added.map(({ content }) => content);
    this.#addedIds = new Map(file.added.map(({ content, id }) => [content, id]));
    this.#control = new Set(this.#addedIds.values());
    // Of tokens that start at the same place the longest one counts.
    const longestFirst = [...this.addedTokens].sort((a, b) => b.length - a.length);
    this.#splitter = new RegExp(longestFirst.map(escapePattern).join("|") || "(?!)", "gu");
    this.namedTokens = parseNamedTokens(config);
    const { bos_token: bos, eos_token: eos } = this.namedTokens;
    this.eosTokenIds = eos === undefined ? [] : [idOf(file, eos, "eos_token")];
    if (bos !== undefined) this.bosTokenId = idOf(file, bos, "bos_token");
    this.addsBos = this.bosTokenId !== undefined && addsBos(file.json, config, bos);
    this.chatTemplate = chatTemplate ?? parseChatTemplate(config);
  }

  encodeText(text: string): number[] {
    return this.#encoder.encode(text, false);
  }

  encodePrompt(segments: readonly PromptSegment[], options: EncodePromptOptions = {}): number[] {
    const { atStart = true, bos = false } = options;
    const ids: number[] = [];
    if (bos) ids.push(this.#bos());
    let first = atStart;
    let stretch = "";
    const flush = () => {
      for (const id of this.#encoder.encode(stretch, first)) ids.push(id);
      if (stretch !== "") first = false;
      stretch = "";
    };
    for (const { text, trusted } of joinSegments(segments)) {
      let from = 0;
      if (trusted) {
        for (const { 0: content, index } of text.matchAll(this.#splitter)) {
          stretch += text.slice(from, index);
          flush();
          ids.push(this.#addedIds.get(content) as number);
          first = false;
          from = index + content.length;
        }
      }
      stretch += text.slice(from);
    }
    flush();
    return ids;
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    const { bytes, offsets } = this.#table;
    const parts: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] as number;
      if (!Number.isInteger(id) || id < 0 || id >= this.size) {
        throw new HindsearchError(
          "INVALID_ARGUMENT",
          `Token ${i} has id ${id}; ids are 0 to ${this.size - 1}.`,
        );
      }
      parts.push(bytes.subarray(offsets[id], offsets[id + 1]));
    }
    const text = utf8.decode(Buffer.concat(parts));
    return options.fromStart && this.#encoder.prefixesSpace ? text.replace(/^ /, "") : text;
  }

  tokenBytes(): TokenBytes {
    return this.#table;
  }

  isControl(id: number): boolean {
    return this.#control.has(id);
  }

  #bos(): number {
    if (this.bosTokenId !== undefined) return this.bosTokenId;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "This tokenizer has no BOS token; leave the option bos out.",
    );
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function parseNamedTokens(config: JsonObject): Record<string, string> {
  const named: Record<string, string> = {};
  for (const key of NAMED_TOKENS) {
    const value = config[key];
    const content = isJsonObject(value) ? value.content : value;
    if (content === undefined || content === null) continue;
    if (typeof content !== "string") throw invalidConfig(`${key} must be text or an added token`);
    named[key] = content;
  }
  return named;
}

function idOf(file: TokenizerFile, content: string, role: string): number {
  const id = file.pieces.indexOf(content);
  if (id < 0) throw invalidConfig(`${role} is ${quote(content)}, which is no token of this tokenizer`);
  return id;
}

function addsBos(json: JsonObject, config: JsonObject, bos: string | undefined): boolean {
  if (typeof config.add_bos_token === "boolean") return config.add_bos_token;
  const processor = isJsonObject(json.post_processor) ? json.post_processor : {};
  const processors = Array.isArray(processor.processors) ? processor.processors : [processor];
  return processors.some((step) => {
    const first = isJsonObject(step) && Array.isArray(step.single) ? step.single[0] : undefined;
    return isJsonObject(first) && isJsonObject(first.SpecialToken) && first.SpecialToken.id === bos;
  });
}

function parseChatTemplate(config: JsonObject): string | null {
  const { chat_template: template } = config;
  if (template === undefined || template === null) return null;
  if (typeof template === "string") return template;
  const named = Array.isArray(template) ? template.filter(isJsonObject) : [];
  const chosen = named.find(({ name }) => name === "default")?.template;
  if (typeof chosen !== "string")
    throw invalidConfig('chat_template must be text, or a list with one named "default"');
  return chosen;
}

function invalidConfig(what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `tokenizer_config.json: ${what}.`);
}

import { HindsearchError } from "../errors.js";
import { isJsonObject, type JsonObject } from "./json-file.js";

/** A token that is matched in trusted text as a whole, before any other rule. @internal */
export interface AddedToken {
  id: number;
  content: string;
  /** Special tokens steer the model and have no text; the others, such as `<tool_call>`, stand for their own. */
  special: boolean;
}

/** How token strings stand for bytes. @internal */
export type ByteScheme = "byte-level" | "metaspace" | "words";

/** The checked contents of `tokenizer.json` and `tokenizer_config.json`. @internal */
export interface TokenizerFile {
  json: JsonObject;
  model: JsonObject;
  /** Id of every token string. */
  ids: ReadonlyMap<string, number>;
  /** Token string of every id; no id is missing. */
  pieces: string[];
  /** By id, ascending. Without the unknown token where that stands for text. */
  added: AddedToken[];
  scheme: ByteScheme;
  /** Whether unknown characters become `<0xNN>` tokens. */
  byteFallback: boolean;
  /** Id of the token that stands for unknown text; `null` where every text is known. */
  unknownId: number | null;
}

const MAX_TOKENS = 2 ** 24;

/** @internal */
export function invalidTokenizer(what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `tokenizer.json: ${what}.`);
}

/** @internal */
export function unsupportedTokenizer(what: string): HindsearchError {
  return new HindsearchError("UNSUPPORTED_MODEL", `tokenizer.json: ${what}.`);
}

/**
 * Checks the files of a tokenizer and brings them into one form.
 *
 * @param json - `tokenizer.json`, untrusted.
 * @param config - `tokenizer_config.json`, untrusted; its `added_tokens_decoder` completes the added tokens.
 * @throws {@link HindsearchError} `UNSUPPORTED_MODEL` for a kind that is not encoded exactly, `INVALID_CHECKPOINT` for
 * a file that contradicts itself.
 * @internal
 */
export function parseTokenizerFile(json: JsonObject, config: JsonObject): TokenizerFile {
  const { model } = json;
  if (!isJsonObject(model)) throw invalidTokenizer("model is missing");
  const vocabulary = parseVocabulary(model);
  const ids = new Map(vocabulary);
  const allAdded = parseAddedTokens(json, config);
  for (const { id, content } of allAdded) {
    const known = ids.get(content);
    if (known !== undefined && known !== id) {
      throw invalidTokenizer(`the token ${quote(content)} has two ids, ${known} and ${id}`);
    }
    ids.set(content, id);
  }
  const pieces = tabulate(ids);
  const scheme = parseScheme(json, model);
  const byteFallback = model.byte_fallback === true;
  const unknownId = scheme === "byte-level" || byteFallback ? null : parseUnknown(model, ids);
  const added = allAdded.filter(({ id }) => id !== unknownId).sort((a, b) => a.id - b.id);
  return { json, model, ids, pieces, added, scheme, byteFallback, unknownId };
}

function parseVocabulary(model: JsonObject): [piece: string, id: number][] {
  const { type, vocab } = model;
  if (type !== "BPE" && type !== "Unigram" && type !== "WordLevel") {
    throw unsupportedTokenizer(
      `model.type is ${JSON.stringify(type)}; supported are "BPE", "Unigram" and "WordLevel"`,
    );
  }
  if (type === "Unigram") {
    const pairs = Array.isArray(vocab) ? vocab : [];
    const valid = (pair: unknown) =>
      Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]);
    if (pairs.length === 0 || !pairs.every(valid)) {
      throw invalidTokenizer("model.vocab must be a list of [piece, score]");
    }
    if (model.byte_fallback === true) {
      throw unsupportedTokenizer("a Unigram model with byte_fallback is not supported");
    }
    return pairs.map(([piece], id): [string, number] => [piece, id]);
  }
  const entries = isJsonObject(vocab) ? Object.entries(vocab) : [];
  if (entries.length === 0 || !entries.every(([, id]) => isTokenId(id))) {
    throw invalidTokenizer("model.vocab must map token strings to ids");
  }
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[key])
      throw unsupportedTokenizer(`model.${key} is ${JSON.stringify(model[key])}; supported is none`);
  }
  return entries as [string, number][];
}

function parseAddedTokens(json: JsonObject, config: JsonObject): AddedToken[] {
  const list = json.added_tokens ?? [];
  const decoder = config.added_tokens_decoder ?? {};
  if (!Array.isArray(list)) throw invalidTokenizer("added_tokens must be a list");
  if (!isJsonObject(decoder)) {
    throw new HindsearchError(
      "INVALID_CHECKPOINT",
      "tokenizer_config.json: added_tokens_decoder must be an object.",
    );
  }
  const later = Object.entries(decoder).map(([id, token]) =>
    isJsonObject(token) ? { ...token, id: Number(id) } : token,
  );
  const tokens = new Map<string, AddedToken>();
  for (const token of [...list, ...later]) {
    if (
      !isJsonObject(token) ||
      typeof token.content !== "string" ||
      token.content === "" ||
      !isTokenId(token.id)
    ) {
      throw invalidTokenizer("an added token needs a content that is not empty and an id");
    }
    const { content, id } = token;
    for (const key of ["single_word", "lstrip", "rstrip"]) {
      if (token[key] === true) throw unsupportedTokenizer(`the added token ${quote(content)} has ${key}`);
    }
    const known = tokens.get(content);
    if (known !== undefined && known.id !== id) {
      throw invalidTokenizer(`the added token ${quote(content)} has two ids, ${known.id} and ${id}`);
    }
    if (known === undefined) tokens.set(content, { id, content, special: token.special === true });
  }
  return [...tokens.values()];
}

function tabulate(ids: ReadonlyMap<string, number>): string[] {
  const pieces: (string | undefined)[] = new Array(ids.size).fill(undefined);
  for (const [piece, id] of ids) {
    if (id >= ids.size)
      throw invalidTokenizer(`id ${id} of ${quote(piece)} leaves a gap: there are ${ids.size} tokens`);
    if (pieces[id] !== undefined) {
      throw invalidTokenizer(`id ${id} belongs to two tokens, ${quote(pieces[id])} and ${quote(piece)}`);
    }
    pieces[id] = piece;
  }
  return pieces as string[];
}

function parseScheme(json: JsonObject, model: JsonObject): ByteScheme {
  const { decoder } = json;
  if (model.type === "WordLevel") {
    if (isJsonObject(decoder)) {
      throw unsupportedTokenizer(
        `a WordLevel model with the decoder ${JSON.stringify(decoder.type)} is not supported`,
      );
    }
    return "words";
  }
  const steps = flatten(decoder, "decoders").map(({ type }) => type);
  if (steps.includes("ByteLevel") && model.type === "BPE") return "byte-level";
  const marked = ["Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"];
  if (steps.length > 0 && steps.every((type) => marked.includes(type as string))) return "metaspace";
  throw unsupportedTokenizer(
    `${model.type} with the decoder [${steps.join(", ")}] is not supported; supported are ByteLevel, and Metaspace or ` +
      "its equivalent with Replace, ByteFallback, Fuse and Strip",
  );
}

function parseUnknown(model: JsonObject, ids: ReadonlyMap<string, number>): number {
  const id = model.type === "Unigram" ? model.unk_id : ids.get(String(model.unk_token));
  if (!isTokenId(id) || id >= ids.size) {
    throw invalidTokenizer(
      "there is neither byte fallback nor an unknown token, so some text cannot be encoded",
    );
  }
  return id;
}

/**
 * The steps of a normalizer, pre-tokenizer or decoder: one, or those of a sequence.
 *
 * @internal
 */
export function flatten(step: unknown, key: "normalizers" | "pretokenizers" | "decoders"): JsonObject[] {
  if (!isJsonObject(step)) return [];
  if (step.type !== "Sequence") return [step];
  const steps = step[key];
  return Array.isArray(steps) ? steps.flatMap((inner) => flatten(inner, key)) : [];
}

function isTokenId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < MAX_TOKENS;
}

/** @internal */
export function quote(text: string | undefined): string {
  return JSON.stringify(text !== undefined && text.length > 60 ? `${text.slice(0, 60)}…` : text);
}

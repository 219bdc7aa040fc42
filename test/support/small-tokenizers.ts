import type { JsonObject } from "../../lib/policy/json-file.js";
import { byteSymbol, fallbackPiece } from "../../lib/policy/plain-encoder.js";

const bytes = Array.from({ length: 256 }, (_, byte) => byte);
const number = (pieces: readonly string[]) => Object.fromEntries(pieces.map((piece, id) => [piece, id]));

/** Added tokens with ids from `first` on. */
export function addedTokens(contents: readonly string[], first: number, special = true): JsonObject[] {
  return contents.map((content, i) => ({
    id: first + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special,
  }));
}

const files = (parts: JsonObject): JsonObject => ({
  version: "1.0",
  truncation: null,
  padding: null,
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: null,
  added_tokens: [],
  ...parts,
});

/** Byte-level BPE with a few merges; control tokens 264 to 267, of which the last, `<tool>`, is not special. */
export function byteLevelTokenizer(): JsonObject {
  const merges: [string, string][] = [
    ["t", "h"],
    ["th", "e"],
    ["Ġ", "the"],
    ["i", "m"],
    ["im", "_"],
    ["<", "|"],
    ["|", ">"],
    ["Ã", "©"],
  ];
  const pieces = [...bytes.map(byteSymbol), ...merges.map((merge) => merge.join(""))];
  return files({
    added_tokens: [
      ...addedTokens(["<|end|>", "<|im_start|>", "<|im_end|>"], 264),
      ...addedTokens(["<tool>"], 267, false),
    ],
    normalizer: { type: "NFC" },
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: { type: "BPE", vocab: number(pieces), merges: merges.map((merge) => merge.join(" ")) },
  });
}

/** SentencePiece-like BPE with byte fallback; `<unk>`, `<s>` and `</s>` are 0 to 2. */
export function metaspaceTokenizer(scheme: "always" | "first" | "never", split: boolean): JsonObject {
  const merges: [string, string][] = [
    ["a", "b"],
    ["▁", "ab"],
    ["▁", "c"],
    ["ab", "▁c"],
  ];
  const control = ["<unk>", "<s>", "</s>"];
  const letters = ["▁", "a", "b", "c", "s", "<", ">", "/"];
  const pieces = [
    ...control,
    ...bytes.map(fallbackPiece),
    ...letters,
    ...merges.map((merge) => merge.join("")),
  ];
  return files({
    added_tokens: addedTokens(control, 0),
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: scheme, split },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
    },
    model: {
      type: "BPE",
      unk_token: "<unk>",
      fuse_unk: true,
      byte_fallback: true,
      vocab: number(pieces),
      merges,
    },
  });
}

/** Unigram over words; `<s>` is 0, `<unk>` 1 and no added token. */
export function unigramTokenizer(): JsonObject {
  const pieces: [string, number][] = [
    ["<s>", 0],
    ["<unk>", 0],
    ["▁cat", -1],
    ["▁dog", -1.5],
    ["s", -3],
    [".", -2],
  ];
  return files({
    added_tokens: addedTokens(["<s>"], 0),
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true },
    decoder: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true },
    model: { type: "Unigram", unk_id: 1, vocab: pieces, byte_fallback: false },
  });
}

/** One word, one token; `<s>` is 0, `<unk>` 1. */
export function wordTokenizer(): JsonObject {
  return files({
    added_tokens: addedTokens(["<s>"], 0),
    pre_tokenizer: { type: "WhitespaceSplit" },
    model: {
      type: "WordLevel",
      unk_token: "<unk>",
      vocab: number(["<s>", "<unk>", "cat", "dog", "é", "__proto__"]),
    },
  });
}

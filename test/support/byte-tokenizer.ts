import { createTokenizer, type Tokenizer } from "../../lib/policy/tokenizer.js";

/** GPT-2's table of characters that stand for bytes. */
function byteSymbols(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(printable ? byte : next++);
  });
}

/** `tokenizer.json` of a tokenizer with one token per byte, and `special` as added tokens from id 256 on. */
export function byteTokenizerJson(special: readonly string[] = ["<|end|>"]): Record<string, unknown> {
  const vocab = Object.fromEntries(byteSymbols().map((symbol, id) => [symbol, id]));
  return {
    version: "1.0",
    added_tokens: special.map((content, i) => ({
      id: 256 + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab, merges: [] },
  };
}

/** The tokenizer itself. */
export function byteTokenizer(
  special: readonly string[] = ["<|end|>"],
  chatTemplate: string | null = null,
): Tokenizer {
  return createTokenizer(byteTokenizerJson(special), { eos_token: "<|end|>" }, chatTemplate);
}

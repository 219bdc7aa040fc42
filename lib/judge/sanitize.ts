import { cutText } from "../retrieval/cut.js";

/**
 * Pieces of text that chat templates use as control tokens: `<|...|>` of Qwen, Llama 3 and many others, `<s>`,
 * `[INST]` and `<<SYS>>` of Llama 2 and Mistral, turn marks of Gemma. A server renders foreign text into its template
 * and turns such pieces into real control tokens.
 */
const CONTROL_TOKENS =
  /<\|[^<>|]{0,64}\|>|<\/?s>|\[\/?INST\]|<<\/?SYS>>|<(?:start|end)_of_turn>|<\/?(?:bos|eos|pad|unk)>/gi;

/** Control and invisible formatting characters, but for those that join letters in Indic and Arabic scripts and emoji. */
const INVISIBLE = /[\p{Cc}\p{Cf}]/gu;
const JOINERS = /[\u200c\u200d]/;
/** What is nested deeper was built to be taken apart for ever; it loses its brackets. */
const MAX_NESTING = 4;

/**
 * Foreign text as one line without control tokens, tags and invisible characters.
 *
 * @param text - From a corpus, a dataset, the policy or a model.
 * @param tags - Names of tags to take out with their brackets, e.g. `search` for `<search>` and `</search>`.
 */
export function sanitize(text: string, tags: readonly string[] = []): string {
  const names = tags.map((tag) => tag.replace(/[^\w-]/g, "\\$&")).join("|");
  const tagPattern = names === "" ? undefined : new RegExp(`<\\s*/?\\s*(?:${names})\\b[^<>]{0,64}>`, "gi");
  let clean = text.replace(/[\ud800-\udfff]/gu, "\ufffd");
  clean = clean.replace(INVISIBLE, (character) => (JOINERS.test(character) ? character : " "));
  // Single spaces first: the pattern of tags would try every length of a run of them.
  clean = clean.replace(/\s+/g, " ").trim();
  // Taking one piece out can put another one together.
  for (let round = 0; ; round++) {
    const before = clean;
    clean = clean.replace(CONTROL_TOKENS, " ");
    if (tagPattern !== undefined) clean = clean.replace(tagPattern, " ");
    clean = clean.replace(/\s+/g, " ").trim();
    if (clean === before) return clean;
    if (round === MAX_NESTING)
      return clean
        .replace(/[<>|[\]]+/g, " ")
        .replace(/\s+/g, " ")
        .trim();
  }
}

/** The first `length` characters as {@link cutText} cuts them, with an ellipsis if there were more. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${cutText(text, length)}…`;
}

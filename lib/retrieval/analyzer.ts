/** Cuts a text into the terms that an index is built of. Pure: the same text gives the same terms. */
export type Analyzer = (text: string) => string[];

/** Scripts written without spaces between words. */
const UNSPACED = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"]
  .map((script) => `\\p{Script=${script}}`)
  .join("");
/**
 * A term in any script. Matches characters, not terms in normal form: for positions in a text.
 *
 * @internal
 */
export const TERM = new RegExp(`[${UNSPACED}]\\p{M}*|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}])+`, "gu");
const ASCII_TERM = /[a-z0-9]+/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is an ASCII character like any other here
const ASCII = /^[\x00-\x7f]*$/;

/**
 * The default analyzer: runs of letters, digits and marks in lower case and Unicode normal form KC. No stemming and no
 * stop list: frequent words get their low weight from BM25 itself. Scripts written without spaces give one term per
 * character. A text without letters or digits (empty, punctuation, emoji) has no terms.
 */
export const plainAnalyzer: Analyzer = (text) => {
  if (ASCII.test(text)) return text.toLowerCase().match(ASCII_TERM) ?? [];
  return text.normalize("NFKC").toLowerCase().match(TERM) ?? [];
};

/**
 * Cuts a text into the terms that an index is built of. Pure: the same text gives the same terms. A text of more than
 * 16,384 characters comes in pieces of at most that many, each cut off before white space if there is any in it.
 */
export type Analyzer = (text: string) => string[];

/** Takes a millisecond or so. */
const PIECE = 16_384;

/**
 * The terms of a text of any length, piece by piece, so that a caller can pause in between.
 *
 * @internal
 */
export function* analyzePieces(text: string, analyzer: Analyzer): Generator<string[], void> {
  for (let start = 0; start < text.length; ) {
    const end = pieceEnd(text, start);
    yield analyzer(start === 0 && end === text.length ? text : text.slice(start, end));
    start = end;
  }
}

/** Before white space, since no term and no sequence of composing characters goes on behind one. */
function pieceEnd(text: string, start: number): number {
  const limit = start + PIECE;
  if (limit >= text.length) return text.length;
  for (let end = limit; end > start; end--) {
    const code = text.charCodeAt(end);
    if (code === 0x20 || (code >= 0x09 && code <= 0x0d)) return end;
  }
  const splitsPair = (text.charCodeAt(limit - 1) & 0xfc00) === 0xd800;
  return splitsPair ? limit - 1 : limit;
}

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

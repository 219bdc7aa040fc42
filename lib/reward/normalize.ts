/** Options of {@link normalizeAnswer}. */
export interface NormalizeOptions {
  /**
   * Which punctuation is dropped: `ascii` (default) as SQuAD and Search-R1 do, so that a typographic apostrophe stays and
   * differs from a plain one; `unicode` drops every punctuation character. Scores under the two are not comparable.
   */
  punctuation?: "ascii" | "unicode";
}

/** Python's `string.punctuation`. */
const ASCII_PUNCTUATION = /[!-/:-@[-`{-~]/g;
const UNICODE_PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/gu;

/** Python's `\w` on text is `str.isalnum` or the underscore; its `\b` stands between that and anything else. */
const ARTICLES = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;

/** What Python's `str.split` and `str.strip` take for white space. JavaScript lacks U+001C to U+001F and U+0085, and has U+FEFF. */
const WHITE_SPACE =
  "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const SPACES = new RegExp(WHITE_SPACE, "g");
const OUTER_SPACES = new RegExp(`^${WHITE_SPACE}|${WHITE_SPACE}$`, "g");

/**
 * The form in which answers are compared: lower case, without punctuation, without the words a, an and the, with single
 * spaces. This is SQuAD's and Search-R1's normalisation, in this order, with the meaning that Python gives each step on
 * Unicode text: `lower` with dotted I and final sigma but without case folding, no accents removed, no numbers read.
 *
 * @param text - Any text.
 * @param options - See {@link NormalizeOptions}.
 * @returns May be empty: `"The"` is.
 */
export function normalizeAnswer(text: string, options: NormalizeOptions = {}): string {
  const punctuation = options.punctuation === "unicode" ? UNICODE_PUNCTUATION : ASCII_PUNCTUATION;
  const words = text.toLowerCase().replace(punctuation, "").replace(ARTICLES, " ");
  return stripSpaces(words.replace(SPACES, " "));
}

/** Python's `str.strip`. @internal */
export function stripSpaces(text: string): string {
  return text.replace(OUTER_SPACES, "");
}

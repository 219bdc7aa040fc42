import { HindsearchError } from "../errors.js";
import { stripSpaces } from "./normalize.js";

/** Options of {@link extractAnswer}. */
export interface ExtractOptions {
  /** Opening tag. Default `<answer>`. */
  open?: string;
  /** Closing tag. Default `</answer>`. */
  close?: string;
  /** How many closed pairs there must be. Default 1; 2 is Search-R1's rule for a text that starts with its prompt. */
  minPairs?: number;
}

/**
 * The answer in a recorded response: the text of the last closed tag pair, trimmed. A pair is an opening tag with the next
 * closing tag behind it; tags are matched letter by letter; an opening tag without a closing one is plain text.
 *
 * For texts from outside. A trajectory of this package has its answer already, taken from what the policy wrote alone; here
 * it is for the caller to leave out the prompt and the observations, whose example tags would count too.
 *
 * @param response - The policy's text.
 * @param options - See {@link ExtractOptions}.
 * @returns The answer, perhaps empty; `null` if there are too few pairs.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an empty tag.
 */
export function extractAnswer(response: string, options: ExtractOptions = {}): string | null {
  const { open = "<answer>", close = "</answer>", minPairs = 1 } = options;
  if (open === "" || close === "")
    throw new HindsearchError("INVALID_ARGUMENT", "An answer tag cannot be empty.");
  let answer: string | null = null;
  let pairs = 0;
  let at = 0;
  for (;;) {
    const start = response.indexOf(open, at);
    const end = start < 0 ? -1 : response.indexOf(close, start + open.length);
    if (end < 0) return pairs >= minPairs ? answer : null;
    answer = stripSpaces(response.slice(start + open.length, end));
    pairs++;
    at = end + close.length;
  }
}

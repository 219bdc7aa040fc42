import { InvalidArgumentError } from "commander";
import { HindsearchError } from "../errors.js";

/** Reads a whole number from `least` to `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text.trim()) && number >= least && number <= most) return number;
    const range = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`Expected a whole number ${range}.`);
  };
}

/** Reads the number of a port; 0 takes a free one. */
export const port = wholeNumber(0, 65_535);

/**
 * Joins the words of a query or question.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if there is nothing in them to ask for.
 */
export function oneText(words: readonly string[]): string {
  const text = words.join(" ");
  if (text.trim() !== "") return text;
  throw new HindsearchError("INVALID_ARGUMENT", "The text to ask for is empty.");
}

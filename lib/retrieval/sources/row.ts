import type { HindsearchError } from "../../errors.js";
import { type Passage, parseContents } from "../passage.js";

/** Longer ids are refused: they are in memory for every passage, and in every record of a search. */
const MAX_ID = 1024;

/**
 * The passage of a row in Search-R1's or FlashRAG's form: `{id, contents}` or `{id, title, text}`.
 *
 * @param damaged - Makes the error for a row that is neither.
 * @throws What `damaged` makes.
 */
export function passageOfRow(row: unknown, damaged: (problem: string) => HindsearchError): Passage {
  if (typeof row !== "object" || row === null || Array.isArray(row)) {
    throw damaged("the row is not an object");
  }
  const { contents, title, text } = row as Record<string, unknown>;
  const id = idOf((row as Record<string, unknown>).id, damaged);
  if (typeof contents === "string") return { id, ...parseContents(contents) };
  if (typeof text !== "string") throw damaged("neither contents nor text is a string");
  // A Parquet file has null where a JSON object lacks the field.
  if (title !== undefined && title !== null && typeof title !== "string")
    throw damaged("title is not a string");
  return { id, title: title ?? "", text };
}

function idOf(id: unknown, damaged: (problem: string) => HindsearchError): string {
  if (typeof id === "bigint" || Number.isSafeInteger(id)) return String(id);
  if (typeof id !== "string") throw damaged("id is neither a string nor a whole number");
  if (id === "" || id.length > MAX_ID)
    throw damaged(`id has ${id.length} characters, expected 1 to ${MAX_ID}`);
  if (/\p{Cc}/u.test(id)) throw damaged("id holds a control character");
  return id;
}

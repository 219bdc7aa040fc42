import { type JsonlOptions, readJsonl } from "../data/jsonl.js";
import { HindsearchError } from "../errors.js";
import { type Passage, parseContents } from "./passage.js";

/**
 * Reads a corpus in Search-R1's form: JSON Lines, plain or gzip, each line `{"id", "contents"}` with contents as
 * {@link parseContents} takes them, or `{"id", "title", "text"}`. Ids may be strings or whole numbers; other fields
 * are ignored. Nothing but the current line is held in memory.
 *
 * @param path - The file.
 * @param options - The limits of {@link readJsonl}; `signal` ends the reading.
 * @throws {@link HindsearchError} `INVALID_DATA` naming file and line, and what {@link readJsonl} throws.
 */
export async function* readCorpus(path: string, options: JsonlOptions = {}): AsyncGenerator<Passage, void> {
  for await (const { line, value } of readJsonl(path, options)) {
    yield passageOf(value, (problem) => {
      const expected = 'expected {"id", "contents"} or {"id", "title", "text"}';
      return new HindsearchError("INVALID_DATA", `${path}, line ${line}: ${problem}; ${expected}.`);
    });
  }
}

function passageOf(row: unknown, damaged: (problem: string) => HindsearchError): Passage {
  if (typeof row !== "object" || row === null || Array.isArray(row)) {
    throw damaged("the row is not an object");
  }
  const { id, contents, title, text } = row as Record<string, unknown>;
  if (typeof id !== "string" && !Number.isSafeInteger(id)) {
    throw damaged("id is neither a string nor a whole number");
  }
  if (typeof contents === "string") return { id: String(id), ...parseContents(contents) };
  if (typeof text !== "string") throw damaged("neither contents nor text is a string");
  if (title !== undefined && typeof title !== "string") throw damaged("title is not a string");
  return { id: String(id), title: title ?? "", text };
}

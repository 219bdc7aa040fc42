import { lstat, open } from "node:fs/promises";
import { type JsonlOptions, readJsonl } from "../../data/jsonl.js";
import { HindsearchError } from "../../errors.js";
import type { Passage } from "../passage.js";
import { readFolder } from "./folder.js";
import type { CorpusOptions } from "./options.js";
import { readParquet } from "./parquet.js";
import { passageOfRow } from "./row.js";

/**
 * Reads a corpus, told by what it is and not by its name:
 *
 * - **JSON Lines**, plain or gzip, of Search-R1 or FlashRAG: each line `{"id", "contents"}` with contents as
 *   {@link parseContents} takes them, or `{"id", "title", "text"}`. Ids may be strings or whole numbers; other fields
 *   are ignored.
 * - **Parquet** with the same columns. Needs the optional packages `hyparquet` and `hyparquet-compressors`.
 * - **A folder** of `.txt` and `.md` files at any depth, in the order of their paths, cut into passages of `chunks`.
 *   Ids
 *   are `path#n`; the title is the first Markdown heading, or the file's name. Needs the optional package
 * `llm-splitter`.
 *
 * None of it is trusted, and no more of it is held in memory than a line, a row group or a file.
 *
 * @param source - A path, or several, read one after the other.
 * @param options - Limits: `maxLineBytes` holds for a line, a Parquet value and the bytes of a document's word;
 * `maxBytes` for each file or folder. `signal` ends the reading.
 * @throws {@link HindsearchError} `INVALID_DATA` naming the file and the line, row or reason: damage, a limit, an id
 * that is empty, too long or holds control characters, a binary document, a symbolic link out of the folder.
 * `DEPENDENCY_MISSING`, `IO`, `ABORTED`. Ids are not checked for repetitions here; what indexes the passages does that.
 */
export async function* readCorpus(
  source: string | readonly string[],
  options: CorpusOptions = {},
): AsyncGenerator<Passage, void> {
  for (const path of typeof source === "string" ? [source] : source) {
    const kind = await kindOf(path);
    if (kind === "folder") yield* readFolder(path, options);
    else if (kind === "parquet") yield* readParquet(path, options);
    else yield* readRows(path, options);
  }
}

async function* readRows(path: string, options: JsonlOptions): AsyncGenerator<Passage, void> {
  for await (const { line, value } of readJsonl(path, options)) {
    yield passageOfRow(value, (problem) => {
      const expected = 'expected {"id", "contents"} or {"id", "title", "text"}';
      return new HindsearchError("INVALID_DATA", `${path}, line ${line}: ${problem}; ${expected}.`);
    });
  }
}

async function kindOf(path: string): Promise<"folder" | "parquet" | "lines"> {
  try {
    const status = await lstat(path);
    if (status.isDirectory()) return "folder";
    // Whatever is no plain file is for readJsonl to refuse; opening a pipe here would wait for its writer.
    if (!status.isFile() && !status.isSymbolicLink()) return "lines";
    await using file = await open(path);
    if ((await file.stat()).isDirectory()) return "folder";
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return bytesRead === 4 && buffer.toString("latin1") === "PAR1" ? "parquet" : "lines";
  } catch (cause) {
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  }
}

import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { open, opendir, realpath } from "node:fs/promises";
import { basename, extname, join, relative, sep } from "node:path";
import { throwIfAborted } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import type { Passage } from "../passage.js";
import { createChunker } from "./chunks.js";
import type { CorpusOptions } from "./options.js";

/** Larger documents are refused: they are held in memory, and are no text that a person wrote. */
const MAX_FILE_BYTES = 2 ** 26;
const EXTENSIONS = [".txt", ".md", ".markdown"];
/** Control characters other than tab and line breaks: they mean nothing in a text, and index as nothing. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
const CONTROLS = /[\u0001-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]+/g;

/** See {@link readCorpus}. */
export async function* readFolder(
  folder: string,
  { chunks, maxBytes = 64 * 2 ** 30, signal }: CorpusOptions,
): AsyncGenerator<Passage, void> {
  const chunker = await createChunker(chunks);
  let total = 0;
  for (const path of await documents(folder, signal)) {
    throwIfAborted(signal);
    const bytes = await readDocument(path);
    total += bytes.length;
    if (total > maxBytes) {
      const message = `${folder} holds more than ${maxBytes} bytes of text; raise maxBytes if that is intended.`;
      throw new HindsearchError("INVALID_DATA", message);
    }
    const text = textOf(bytes, path);
    const name = relative(folder, path).split(sep).join("/");
    const title = titleOf(text, path);
    for (const [i, chunk] of chunker(text).entries()) yield { id: `${name}#${i}`, title, text: chunk };
  }
}

/** Paths of the documents, in the order of their names' UTF-16 units, which is the same on every machine. */
async function documents(folder: string, signal: AbortSignal | undefined): Promise<string[]> {
  const found: string[] = [];
  try {
    const root = await realpath(folder);
    const visit = async (directory: string): Promise<void> => {
      for await (const entry of await opendir(directory)) {
        throwIfAborted(signal);
        const path = join(directory, entry.name);
        if (entry.isSymbolicLink()) await checkLink(path, root);
        else if (entry.isDirectory()) await visit(path);
        else if (entry.isFile() && EXTENSIONS.includes(extname(entry.name).toLowerCase())) found.push(path);
      }
    };
    await visit(folder);
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot read ${folder}: ${(cause as Error).message}.`, { cause });
  }
  return found.sort((x, y) => (x < y ? -1 : 1));
}

/** A link to what lies in the folder adds nothing; one that leads out would index what nobody meant to. */
async function checkLink(path: string, root: string): Promise<void> {
  const target = await realpath(path);
  if (target === root || target.startsWith(root + sep)) return;
  throw new HindsearchError(
    "INVALID_DATA",
    `${path} is a symbolic link out of the folder; remove it, or name its target as a source of its own.`,
  );
}

async function readDocument(path: string): Promise<Buffer> {
  try {
    // Neither a link nor a pipe that took the file's place since it was listed.
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = await file.stat();
    if (!status.isFile()) throw new Error("not a regular file");
    if (status.size > MAX_FILE_BYTES) {
      throw new HindsearchError(
        "INVALID_DATA",
        `${path} has ${status.size} bytes, expected at most ${MAX_FILE_BYTES} for a document; split it.`,
      );
    }
    return await file.readFile();
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  }
}

function textOf(bytes: Buffer, path: string): string {
  const damaged = (what: string) => new HindsearchError("INVALID_DATA", `${path}: ${what}.`);
  if (!isUtf8(bytes)) throw damaged("not valid UTF-8; convert the file to UTF-8");
  if (bytes.includes(0)) throw damaged("holds NUL bytes, so it is no text; take it out of the folder");
  const text = bytes.toString();
  return (text.startsWith("\ufeff") ? text.slice(1) : text)
    .replaceAll(CONTROLS, " ")
    .replaceAll(/\r\n?/g, "\n");
}

function titleOf(text: string, path: string): string {
  const heading = /\.txt$/i.test(path) ? undefined : /^#{1,6}[ \t]+(.*?)[ \t#]*$/m.exec(text)?.[1];
  return heading || basename(path, extname(path));
}

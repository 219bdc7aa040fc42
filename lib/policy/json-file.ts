import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename } from "node:path";
import { HindsearchError } from "../errors.js";

/** An object as `JSON.parse` gives it: every value unchecked. @internal */
export type JsonObject = Record<string, unknown>;

/** Whether a JSON value is an object. @internal */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Opens a regular file for reading; folders, pipes and devices are refused before they can block or go on for ever.
 *
 * @throws {@link HindsearchError} `IO` naming the file.
 * @internal
 */
export async function openRegularFile(path: string): Promise<{ file: FileHandle; size: number }> {
  let file: FileHandle | undefined;
  try {
    // Non-blocking, so that a pipe without a writer cannot hang the call before its kind is known.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stat = await file.stat();
    if (!stat.isFile()) throw new Error("not a regular file");
    return { file, size: stat.size };
  } catch (cause) {
    await file?.close();
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  }
}

/**
 * `length` bytes from `position` on.
 *
 * @throws {@link HindsearchError} `IO` if the file ends before.
 * @internal
 */
export async function readExactly(
  file: FileHandle,
  position: number,
  length: number,
  path: string,
): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(buffer, done, length - done, position + done);
    if (bytesRead === 0) throw new HindsearchError("IO", `${path} became shorter while it was read.`);
    done += bytesRead;
  }
  return buffer;
}

/**
 * Reads a small text file of a model folder as a whole.
 *
 * @param path - The file.
 * @param maxBytes - Larger files are refused: they are not what they claim to be.
 * @returns The text; `null` if there is no such file.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if it is too large or not UTF-8; `IO`.
 * @internal
 */
export async function readTextFile(path: string, maxBytes: number): Promise<string | null> {
  let opened: { file: FileHandle; size: number };
  try {
    opened = await openRegularFile(path);
  } catch (error) {
    const cause = (error as HindsearchError).cause as NodeJS.ErrnoException | undefined;
    if (cause?.code === "ENOENT") return null;
    throw error;
  }
  const { file, size } = opened;
  try {
    if (size > maxBytes) {
      throw new HindsearchError(
        "INVALID_CHECKPOINT",
        `${path} has ${size} bytes; a ${basename(path)} has at most ${maxBytes}.`,
      );
    }
    const bytes = await file.readFile();
    if (!isUtf8(bytes)) throw new HindsearchError("INVALID_CHECKPOINT", `${path} is not valid UTF-8.`);
    return bytes.toString("utf8");
  } finally {
    await file.close();
  }
}

/**
 * Reads a small JSON file of a model folder.
 *
 * @returns The object; `null` if there is no such file.
 * @throws {@link HindsearchError} As {@link readTextFile}, and `INVALID_CHECKPOINT` if it does not hold a JSON object.
 * @internal
 */
export async function readJsonFile(path: string, maxBytes: number): Promise<JsonObject | null> {
  const text = await readTextFile(path, maxBytes);
  return text === null ? null : parseJsonObject(text, path);
}

/**
 * @param place - Named in the message.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` unless `text` is a JSON object.
 * @internal
 */
export function parseJsonObject(text: string, place: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new HindsearchError("INVALID_CHECKPOINT", `${place} is not JSON: ${(cause as Error).message}.`, {
      cause,
    });
  }
  if (!isJsonObject(value)) {
    throw new HindsearchError("INVALID_CHECKPOINT", `${place} must hold a JSON object.`);
  }
  return value;
}

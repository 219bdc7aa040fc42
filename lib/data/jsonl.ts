import { isUtf8 } from "node:buffer";
import { type FileHandle, open } from "node:fs/promises";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";

const LINE_FEED = 10;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
/** Large enough to be fast, small enough that the lines of one chunk do not hold up the event loop. */
const CHUNK_BYTES = 1 << 18;

/** Limits of {@link readJsonl}. */
export interface JsonlOptions extends AbortOptions {
  /** Longest line in bytes. Default 16 MiB. */
  maxLineBytes?: number;
  /** Most bytes in all, after decompression: the guard against decompression bombs. Default 64 GiB. */
  maxBytes?: number;
}

/** One row of a JSONL file. */
export interface JsonlRow {
  /** Counted from 1; blank lines count but give no row. */
  line: number;
  /** What the line holds: any JSON value, unchecked. */
  value: unknown;
}

/**
 * Reads a file of one JSON value a line, plain or gzip (recognised by its first bytes, not its name), without ever
 * holding more than one line and one chunk. The file is not trusted: a damaged line is an error, never skipped.
 *
 * @param path - A regular file.
 * @param options - Limits, and `signal` to end early.
 * @throws {@link HindsearchError} `INVALID_DATA` naming file and line for a line that is too long, not UTF-8 or not
 * JSON, or a file over its limit; `IO` if reading or decompression fails; `ABORTED`.
 */
export async function* readJsonl(path: string, options: JsonlOptions = {}): AsyncGenerator<JsonlRow, void> {
  let line = 0;
  for await (const bytes of readLines(path, options)) {
    line++;
    const value = parseLine(bytes, path, line);
    if (value !== undefined) yield { line, value };
  }
}

function parseLine(bytes: Buffer, path: string, line: number): unknown {
  const damaged = (what: string, cause?: unknown) =>
    new HindsearchError("INVALID_DATA", `${path}, line ${line}: ${what}.`, { cause });
  if (!isUtf8(bytes)) throw damaged("not valid UTF-8; convert the file to UTF-8");
  const start = line === 1 && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
  const text = bytes.toString("utf8", start);
  if (/^[ \t\r]*$/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw damaged("not JSON; every line must hold one complete JSON value", cause);
  }
}

async function* readLines(path: string, options: JsonlOptions): AsyncGenerator<Buffer, void> {
  const { maxLineBytes = 16 * 2 ** 20, maxBytes = 64 * 2 ** 30, signal } = options;
  let pieces: Buffer[] = [];
  let pending = 0;
  let total = 0;
  let line = 1;
  const take = (piece: Buffer) => {
    pending += piece.length;
    if (pending > maxLineBytes) {
      throw new HindsearchError(
        "INVALID_DATA",
        `${path}, line ${line}: longer than ${maxLineBytes} bytes; is this a file of one JSON value a line?`,
      );
    }
    pieces.push(piece);
  };
  for await (const chunk of readChunks(path, signal)) {
    total += chunk.length;
    if (total > maxBytes) {
      throw new HindsearchError(
        "INVALID_DATA",
        `${path}, line ${line}: the file has more than ${maxBytes} bytes; raise maxBytes if that is intended.`,
      );
    }
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      take(chunk.subarray(start, end));
      yield Buffer.concat(pieces);
      pieces = [];
      pending = 0;
      line++;
      start = end + 1;
    }
    if (start < chunk.length) take(chunk.subarray(start));
  }
  if (pending > 0) yield Buffer.concat(pieces);
}

async function* readChunks(path: string, signal: AbortSignal | undefined): AsyncGenerator<Buffer, void> {
  let file: FileHandle | undefined;
  try {
    throwIfAborted(signal);
    file = await open(path);
    if (!(await file.stat()).isFile()) throw new Error("not a regular file");
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
    let stream: Readable = file.createReadStream({ start: 0, highWaterMark: CHUNK_BYTES, autoClose: false });
    // The callback is empty because the error also ends the iteration below.
    if (buffer.readUInt16BE() === 0x1f8b) {
      stream = pipeline(stream, createGunzip({ chunkSize: CHUNK_BYTES }), () => {});
    }
    for await (const chunk of stream) {
      throwIfAborted(signal);
      yield chunk;
    }
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  } finally {
    await file?.close();
  }
}

import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";

const LINE_FEED = 10;
/**
 * What a row needs whose text can be used in full: 65,536 characters (longer questions and passages are refused or cut),
 * at 6 bytes each where JSON escapes them all. A hostile line of that length parses in 50 to 200 ms, one of 10 MB
 * in seconds.
 */
const MAX_LINE_BYTES = 2 ** 19;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
/** Large enough to be fast, small enough that the lines of one chunk do not hold up the event loop. */
const CHUNK_BYTES = 1 << 16;

/** Limits of {@link readJsonl}. */
export interface JsonlOptions extends AbortOptions {
  /** Longest line in bytes. Default 512 KiB: a line is parsed in one go, and holds the event loop for that long. */
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
 * @param options - Limits above 0, and `signal` to end early.
 * @throws {@link HindsearchError} `INVALID_DATA` naming file and line for a line that is too long, not UTF-8 or not
 * JSON, or a file over its limit; `INVALID_ARGUMENT` for a limit that is none; `IO` if reading or decompression fails; `ABORTED`.
 */
export async function* readJsonl(path: string, options: JsonlOptions = {}): AsyncGenerator<JsonlRow, void> {
  const splitter = new LineSplitter(path, options);
  let line = 0;
  const row = (bytes: Buffer): JsonlRow => ({ line: ++line, value: parseLine(bytes, path, line) });
  for await (const chunk of readChunks(path, options.signal)) {
    for (const bytes of splitter.split(chunk)) {
      const parsed = row(bytes);
      if (parsed.value !== undefined) yield parsed;
    }
  }
  const last = splitter.rest();
  if (last.length === 0) return;
  const parsed = row(last);
  if (parsed.value !== undefined) yield parsed;
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

/** Cuts a stream of chunks at line feeds, within the limits. */
class LineSplitter {
  readonly #path: string;
  readonly #maxLineBytes: number;
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #pending = 0;
  #total = 0;
  #line = 1;

  constructor(path: string, { maxLineBytes = MAX_LINE_BYTES, maxBytes = 64 * 2 ** 30 }: JsonlOptions) {
    for (const [name, limit] of Object.entries({ maxLineBytes, maxBytes })) {
      if (limit > 0) continue;
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `${name} is ${limit}, expected a number of bytes above 0.`,
      );
    }
    this.#path = path;
    this.#maxLineBytes = maxLineBytes;
    this.#maxBytes = maxBytes;
  }

  *split(chunk: Buffer): Generator<Buffer, void> {
    this.#total += chunk.length;
    if (this.#total > this.#maxBytes) {
      throw this.#tooLarge(
        `the file has more than ${this.#maxBytes} bytes; raise maxBytes if that is intended`,
      );
    }
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      this.#take(chunk.subarray(start, end));
      yield this.rest();
      start = end + 1;
    }
    if (start < chunk.length) this.#take(chunk.subarray(start));
  }

  /** The line so far; the next one starts empty. */
  rest(): Buffer {
    const whole = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#pending = 0;
    this.#line++;
    return whole;
  }

  #take(piece: Buffer): void {
    this.#pending += piece.length;
    if (this.#pending > this.#maxLineBytes) {
      throw this.#tooLarge(
        `longer than ${this.#maxLineBytes} bytes; the file must hold one JSON value a line. Raise maxLineBytes if lines of ` +
          "that length are intended",
      );
    }
    this.#pieces.push(piece);
  }

  #tooLarge(what: string): HindsearchError {
    return new HindsearchError("INVALID_DATA", `${this.#path}, line ${this.#line}: ${what}.`);
  }
}

async function* readChunks(path: string, signal: AbortSignal | undefined): AsyncGenerator<Buffer, void> {
  let file: FileHandle | undefined;
  try {
    throwIfAborted(signal);
    // Non-blocking, so that a pipe without a writer cannot hang the call before its kind is known.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
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
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "there is no such file" : message;
    throw new HindsearchError("IO", `Cannot read ${path}: ${why}.`, { cause });
  } finally {
    await file?.close();
  }
}

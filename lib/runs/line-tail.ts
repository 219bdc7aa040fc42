import type { FileHandle } from "node:fs/promises";
import { throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { withRegularFile } from "./regular-file.js";

const LINE_FEED = 10;
/** Bytes before the position by which a file is known again: one that was cut and has grown since has others there. */
const MEMORY_BYTES = 256;
/** A chunk's lines are handled in one turn of the event loop. */
const CHUNK_BYTES = 1 << 17;

/** Hears what is new in a file. */
export interface LineListener {
  /** A whole line, without its line feed. The bytes are only valid during the call. */
  line(bytes: Buffer, offset: number): void;
  /** A line that is over the limit, and is not read. */
  tooLong(offset: number, length: number): void;
  /** The file is another one than before, or was cut: everything heard so far is void. */
  restart(): void;
}

/**
 * Reads a file of lines that another process appends to: each call takes up where the last one ended. What stands behind
 * the last line feed is not a line yet.
 *
 * Never more than a chunk and a line are in memory.
 */
export class LineTail {
  #position = 0;
  #inode: number | undefined;
  #size = 0;
  /** What stood before the position. */
  #before: Buffer = Buffer.alloc(0);

  /**
   * @param path - The file; it need not exist yet.
   * @param maxLineBytes - Longer lines are skipped.
   */
  constructor(
    readonly path: string,
    private readonly maxLineBytes: number,
  ) {}

  /** Bytes of whole lines read so far. */
  get position(): number {
    return this.#position;
  }

  /** Bytes of the file when it was last looked at. */
  get size(): number {
    return this.#size;
  }

  /**
   * Reads what is new.
   *
   * @throws {@link HindsearchError} `IO`, `ABORTED`.
   */
  async read(listener: LineListener, signal?: AbortSignal): Promise<void> {
    throwIfAborted(signal);
    try {
      await withRegularFile(this.path, (file) => this.#readNew(file, listener, signal));
    } catch (cause) {
      if (cause instanceof HindsearchError) throw cause;
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return this.#forget(listener, undefined);
      throw new HindsearchError("IO", `Cannot read ${this.path}: ${(cause as Error).message}.`, { cause });
    }
  }

  async #readNew(file: FileHandle, listener: LineListener, signal: AbortSignal | undefined): Promise<void> {
    const { ino, size } = await file.stat();
    const replaced = this.#inode !== undefined && this.#inode !== ino;
    if (replaced || !(await this.#isKnown(file))) this.#forget(listener, ino);
    this.#inode = ino;
    this.#size = size;
    const start = this.#position;
    try {
      await this.#readOn(file, listener, signal);
    } finally {
      if (this.#position !== start) this.#before = await this.#readBefore(file);
    }
  }

  async #isKnown(file: FileHandle): Promise<boolean> {
    return this.#before.equals(await this.#readBefore(file));
  }

  async #readBefore(file: FileHandle): Promise<Buffer> {
    const length = Math.min(MEMORY_BYTES, this.#position);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, this.#position - length);
    return buffer.subarray(0, bytesRead);
  }

  #forget(listener: LineListener, inode: number | undefined): void {
    if (this.#inode !== undefined) listener.restart();
    this.#inode = inode;
    this.#position = 0;
    this.#size = 0;
    this.#before = Buffer.alloc(0);
  }

  async #readOn(file: FileHandle, listener: LineListener, signal: AbortSignal | undefined): Promise<void> {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let at = this.#position;
    let pieces: Buffer[] = [];
    let pending = 0;
    for (;;) {
      throwIfAborted(signal);
      const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, at);
      if (bytesRead === 0) return;
      let start = 0;
      for (;;) {
        const end = chunk.subarray(0, bytesRead).indexOf(LINE_FEED, start);
        if (end < 0) break;
        const length = pending + end - start;
        const last = chunk.subarray(start, end);
        const offset = this.#position;
        this.#position = at + end + 1;
        if (length > this.maxLineBytes) listener.tooLong(offset, length);
        else listener.line(pieces.length === 0 ? last : Buffer.concat([...pieces, last]), offset);
        pieces = [];
        pending = 0;
        start = end + 1;
      }
      pending += bytesRead - start;
      if (pending > this.maxLineBytes) pieces = [];
      else if (start < bytesRead) pieces.push(Buffer.from(chunk.subarray(start, bytesRead)));
      at += bytesRead;
    }
  }
}

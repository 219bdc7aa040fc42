import { createReadStream } from "node:fs";
import type { FileHandle } from "node:fs/promises";

const LINE_FEED = 10;
const CHUNK_BYTES = 1 << 16;

/**
 * The lines of a file that end in a line feed, first to last. `rest` of the last item is what stands behind them: the
 * beginning of a line that is being written, or that a crash cut off.
 *
 * Only a line feed ends a line: texts hold U+2028 and carriage returns as they are.
 *
 * @internal
 */
export async function* linesOf(path: string): AsyncGenerator<{ line: string } | { rest: number }, void> {
  let pieces: Buffer[] = [];
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    const bytes = chunk as Buffer;
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      pieces.push(bytes.subarray(start, end));
      yield { line: Buffer.concat(pieces).toString() };
      pieces = [];
      start = end + 1;
    }
    if (start < bytes.length) pieces.push(bytes.subarray(start));
  }
  yield { rest: pieces.reduce((sum, { length }) => sum + length, 0) };
}

/**
 * The lines of a file, last to first, with the offset of each. The first one is what stands behind the last line feed:
 * empty, or a line that was cut off.
 *
 * @internal
 */
export async function* linesBackwards(
  file: FileHandle,
): AsyncGenerator<{ start: number; line: string }, void> {
  // Of the line under way, last piece first.
  let pieces: Buffer[] = [];
  const take = () => {
    const line = Buffer.concat(pieces.reverse()).toString();
    pieces = [];
    return line;
  };
  for (let end = (await file.stat()).size; end > 0; ) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const chunk = await readWhole(file, start, end - start);
    let stop = chunk.length;
    for (let feed = lastFeed(chunk, stop); feed >= 0; feed = lastFeed(chunk, stop)) {
      pieces.push(chunk.subarray(feed + 1, stop));
      yield { start: start + feed + 1, line: take() };
      stop = feed;
    }
    pieces.push(chunk.subarray(0, stop));
    end = start;
  }
  yield { start: 0, line: take() };
}

function lastFeed(chunk: Buffer, end: number): number {
  return end === 0 ? -1 : chunk.lastIndexOf(LINE_FEED, end - 1);
}

async function readWhole(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const chunk = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(chunk, done, length - done, position + done);
    if (bytesRead === 0) return chunk.subarray(0, done);
    done += bytesRead;
  }
  return chunk;
}

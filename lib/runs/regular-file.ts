import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { HindsearchError } from "../errors.js";

/**
 * Lets `body` read a regular file. A pipe, which may never have a writer, and a device, which may never end, are refused.
 *
 * @throws What the system refuses, `ENOENT` among it; {@link HindsearchError} `IO` for another kind of file.
 * @internal
 */
export async function withRegularFile<T>(
  path: string,
  body: (file: FileHandle, size: number) => Promise<T>,
): Promise<T> {
  // Non-blocking: a pipe must not hang the call before its kind is known.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new HindsearchError("IO", `${path} is not a regular file.`);
    return await body(file, stat.size);
  } finally {
    await file.close();
  }
}

/**
 * Bytes of a file from `offset` on; fewer if it ends before.
 *
 * @throws {@link HindsearchError} `IO`.
 * @internal
 */
export async function readBytesAt(path: string, offset: number, length: number): Promise<Buffer> {
  try {
    return await withRegularFile(path, async (file) => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
      return buffer.subarray(0, bytesRead);
    });
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  }
}

import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Writes a file so that after a crash either the old or the whole new one is there: temporary name, sync, rename,
 * sync of the folder.
 *
 * @internal
 */
export async function writeFileDurably(path: string, contents: string | Uint8Array): Promise<void> {
  const partial = `${path}.partial`;
  const file = await open(partial, "w");
  try {
    await file.writeFile(contents);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
  await syncFolder(dirname(path));
}

/**
 * Makes the names in a folder durable: a rename is only on disk once its folder is.
 *
 * @internal
 */
export async function syncFolder(path: string): Promise<void> {
  await syncPath(path);
}

/**
 * Flushes a file or folder to disk.
 *
 * @internal
 */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } catch (error) {
    // Windows cannot open or sync folders; there a rename is durable by itself.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
  } finally {
    await handle.close();
  }
}

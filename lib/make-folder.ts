import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Makes a folder with those above it, unless it is there.
 *
 * Node's own recursive `mkdir` calls a read-only file system a folder that does not exist, and never ends in one that can
 * hold no folders, such as `/proc`.
 *
 * @throws What the system refuses.
 * @internal
 */
export async function makeFolder(path: string): Promise<void> {
  if (await makeOne(path)) return;
  if (dirname(path) !== path) await makeFolder(dirname(path));
  if (await makeOne(path)) return;
  // The folder above is there by now: its file system takes no folders.
  throw Object.assign(new Error(`no folder can be made in ${dirname(path)}`), {
    code: "ENOENT",
    syscall: "mkdir",
    path,
  });
}

/** Whether the folder is there now; not if the one above is missing. */
async function makeOne(path: string): Promise<boolean> {
  try {
    await mkdir(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return true;
    if (code === "ENOENT") return false;
    throw error;
  }
}

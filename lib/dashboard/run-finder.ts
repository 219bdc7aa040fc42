import { lstat, readdir } from "node:fs/promises";
import { basename, join, relative, resolve, sep } from "node:path";
import { HindsearchError } from "../errors.js";
import { RunDirectory } from "../runs/run.js";

/** Folders below the one given in which runs are looked for. */
const MAX_DEPTH = 4;
/** Folders looked at: a home folder given by mistake must not be walked through. */
const MAX_FOLDERS = 5_000;

/** A run folder. */
export interface FoundRun {
  /** Its name below the folder that was given, `/` between folders. */
  id: string;
  folder: string;
}

/**
 * Runs in folders: each is a run itself or holds some, up to four levels down. Links are not followed.
 *
 * @throws {@link HindsearchError} `IO` if a folder that was given cannot be listed.
 */
export async function findRuns(folders: readonly string[]): Promise<FoundRun[]> {
  const found = new Map<string, FoundRun>();
  for (const folder of folders) {
    const root = resolve(folder);
    for (const run of await runsBelow(root)) {
      const name = relative(root, run).split(sep).join("/");
      const prefix = folders.length > 1 ? basename(root) : "";
      const base = [prefix, name].filter((part) => part !== "").join("/") || basename(root);
      let id = base;
      for (let i = 2; found.has(id); i++) id = `${base} (${i})`;
      found.set(id, { id, folder: run });
    }
  }
  return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function runsBelow(root: string): Promise<string[]> {
  const runs: string[] = [];
  let folders = [root];
  let seen = 0;
  for (let depth = 0; depth <= MAX_DEPTH && folders.length > 0; depth++) {
    const next: string[] = [];
    for (const folder of folders) {
      if (++seen > MAX_FOLDERS) return runs;
      if (await isRun(folder)) runs.push(folder);
      else next.push(...(await subfolders(folder, folder === root)));
    }
    folders = next;
  }
  return runs;
}

/** A model folder has a config.json too, but no run.json. */
async function isRun(folder: string): Promise<boolean> {
  if (!(await RunDirectory.exists(folder))) return false;
  const identity = await lstat(join(folder, "run.json")).catch(() => undefined);
  return identity?.isFile() ?? false;
}

async function subfolders(folder: string, mustBeThere: boolean): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith(".") && entry.name !== "node_modules")
      .map((entry) => join(folder, entry.name));
  } catch (cause) {
    if (!mustBeThere) return [];
    throw new HindsearchError("IO", `Cannot look for runs in ${folder}: ${(cause as Error).message}.`, {
      cause,
    });
  }
}

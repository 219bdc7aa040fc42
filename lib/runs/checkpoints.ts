import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { HindsearchError } from "../errors.js";
import { syncFolder, syncPath } from "./durable.js";

/** A complete checkpoint. */
export interface CheckpointFolder {
  /** Training steps done when it was written. */
  step: number;
  /** Where its files are. */
  folder: string;
}

/** Written last; lists every file with its size, so that a folder that lost one is not taken for whole. */
const MARKER = "complete.json";

/**
 * Checkpoints of a run, one folder each.
 *
 * A checkpoint is written under a temporary name, every file synced, the marker `complete.json` added, and the folder
 * renamed: after a crash at any point the last one before it is still the latest.
 */
export class CheckpointStore {
  /**
   * @param folder - Holds the checkpoints.
   * @param onWarning - Hears of folders that are skipped.
   */
  constructor(
    readonly folder: string,
    private readonly onWarning: (warning: string) => void,
  ) {}

  /**
   * Writes a checkpoint; one of the same step is replaced.
   *
   * @param step - Training steps done.
   * @param write - Fills the folder that it gets.
   * @throws {@link HindsearchError} `IO`; what `write` throws comes through, and nothing is left behind.
   */
  async write(step: number, write: (folder: string) => Promise<void>): Promise<CheckpointFolder> {
    if (!Number.isSafeInteger(step) || step < 0) {
      throw new HindsearchError("INVALID_ARGUMENT", `step is ${step}, expected a whole number from 0.`);
    }
    const folder = join(this.folder, folderName(step));
    const partial = `${folder}.partial`;
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true });
    try {
      await write(partial);
      await seal(partial, step);
      await rm(folder, { recursive: true, force: true });
      await rename(partial, folder);
      await syncFolder(this.folder);
    } catch (cause) {
      await rm(partial, { recursive: true, force: true });
      if (cause instanceof Error && !("syscall" in cause)) throw cause;
      throw new HindsearchError("IO", `Could not write the checkpoint of step ${step} to ${folder}.`, {
        cause,
      });
    }
    return { step, folder };
  }

  /**
   * Complete checkpoints, oldest first. What is not complete is skipped with a warning.
   *
   * @throws {@link HindsearchError} `IO`.
   */
  async list(): Promise<CheckpointFolder[]> {
    const found: CheckpointFolder[] = [];
    for (const name of (await this.#names()).sort()) {
      const folder = join(this.folder, name);
      const step = parseName(name);
      const missing = step === undefined ? "its name is not step-NNNNNNNN" : await incomplete(folder, step);
      if (missing === undefined) found.push({ step: step as number, folder });
      else this.onWarning(`Checkpoint ${folder} is skipped: ${missing}.`);
    }
    return found;
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.folder);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw new HindsearchError("IO", `Cannot list the checkpoints: ${(cause as Error).message}.`, { cause });
    }
  }

  /** The complete checkpoint with the most steps. */
  async latest(): Promise<CheckpointFolder | undefined> {
    return (await this.list()).at(-1);
  }

  /** Deletes all but the newest `keep` complete checkpoints. */
  async prune(keep: number): Promise<void> {
    const all = await this.list();
    for (const { folder } of all.slice(0, Math.max(0, all.length - keep))) {
      // The marker goes first: a half-deleted checkpoint must not look complete.
      await rm(join(folder, MARKER));
      await rm(folder, { recursive: true });
    }
  }
}

function folderName(step: number): string {
  return `step-${String(step).padStart(8, "0")}`;
}

function parseName(name: string): number | undefined {
  const match = /^step-(\d{8,})$/.exec(name);
  return match === null ? undefined : Number(match[1]);
}

async function seal(folder: string, step: number): Promise<void> {
  const files: Record<string, number> = {};
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    await syncPath(path);
    if (entry.isFile()) {
      files[path.slice(folder.length + 1).replaceAll(sep, "/")] = (await stat(path)).size;
    }
  }
  const marker = join(folder, MARKER);
  await writeFile(marker, `${JSON.stringify({ step, files }, null, 2)}\n`);
  await syncPath(marker);
  await syncFolder(folder);
}

/** What a folder lacks to be a complete checkpoint. */
async function incomplete(folder: string, step: number): Promise<string | undefined> {
  let marker: { step?: unknown; files?: unknown } | null;
  try {
    marker = JSON.parse(await readFile(join(folder, MARKER), "utf8"));
  } catch {
    return `it has no readable ${MARKER}, so it was not written to its end`;
  }
  if (marker?.step !== step || typeof marker.files !== "object" || marker.files === null) {
    return `its ${MARKER} is not that of step ${step}`;
  }
  for (const [name, size] of Object.entries(marker.files)) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.size !== size) return `its file ${name} has ${found?.size ?? 0} bytes instead of ${size}`;
  }
  return undefined;
}

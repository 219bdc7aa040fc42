import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { HindsearchError } from "../errors.js";
import { makeFolder } from "../make-folder.js";
import { syncFolder } from "./durable.js";
import { io } from "./io.js";
import { type FoundSeal, findDamage, readSeal, type Seal, seal } from "./seal.js";

/** A complete checkpoint. */
export interface CheckpointFolder {
  /** Training steps done when it was written. */
  step: number;
  /** Where its files are. */
  folder: string;
  /** What an evaluation gave at that step, higher is better; absent if there was none. */
  score?: number;
}

/** Ending of a folder that is being written, replaced or deleted: never a checkpoint. */
const PARTIAL = ".partial";

/**
 * Checkpoints of a run, one folder each.
 *
 * A checkpoint is written under a temporary name, every file synced, the marker `complete.json` with the size and
 * checksum of each added, and the folder renamed: after a crash at any point the last one before it is still the latest.
 */
export class CheckpointStore {
  readonly #said = new Set<string>();
  /** Folders whose contents were found damaged. */
  readonly #damaged = new Set<string>();

  /**
   * @param folder - Holds the checkpoints.
   * @param onWarning - Hears of folders that are skipped.
   */
  constructor(
    readonly folder: string,
    private readonly onWarning: (warning: string) => void,
  ) {}

  /**
   * Writes a checkpoint; one of the same step is replaced. What a killed process left half-written is removed.
   *
   * @param step - Training steps done.
   * @param write - Fills the folder that it gets.
   * @param score - What an evaluation gave at this step, higher is better; see {@link prune}.
   * @throws {@link HindsearchError} `IO`; what `write` throws comes through, and nothing is left behind.
   */
  async write(
    step: number,
    write: (folder: string) => Promise<void>,
    score?: number,
  ): Promise<CheckpointFolder> {
    if (!Number.isSafeInteger(step) || step < 0) {
      throw new HindsearchError("INVALID_ARGUMENT", `step is ${step}, expected a whole number from 0.`);
    }
    const folder = join(this.folder, folderName(step));
    const partial = `${folder}${PARTIAL}`;
    await io(`write the checkpoint of step ${step} to ${folder}`, async () => {
      for (const name of await this.#names()) {
        if (name.endsWith(PARTIAL)) await rm(join(this.folder, name), { recursive: true });
      }
      await makeFolder(partial);
      try {
        await write(partial);
        await seal(partial, step, score);
        const old = `${folder}.replaced${PARTIAL}`;
        const replaces = await moveAside(folder, old);
        await rename(partial, folder);
        this.#damaged.delete(folder);
        await syncFolder(this.folder);
        if (replaces) await rm(old, { recursive: true });
      } catch (error) {
        // On a full disk or a failing one this may fail too; the name alone says that it is no checkpoint.
        await rm(partial, { recursive: true, force: true }).catch(() => undefined);
        throw error;
      }
    });
    return { step, folder, ...(score !== undefined && { score }) };
  }

  /**
   * Complete checkpoints, oldest first. What is not complete is skipped with a warning. Sizes are compared, contents are
   * not: {@link latest}, {@link best} and {@link at} read those, and what `latest` found damaged is skipped from then on.
   *
   * @throws {@link HindsearchError} `IO`.
   */
  async list(): Promise<CheckpointFolder[]> {
    return (await this.#complete()).map(checkpointOf);
  }

  /**
   * The checkpoint with the most steps of those that are complete and whose files have the checksums that they were
   * written with. Others are skipped with a warning.
   *
   * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if there are checkpoints and all are damaged; `IO`.
   */
  async latest(): Promise<CheckpointFolder | undefined> {
    for (const complete of (await this.#complete()).reverse()) {
      const damage = await findDamage(complete.folder, complete.seal);
      if (damage === undefined) return checkpointOf(complete);
      this.#damaged.add(complete.folder);
      this.#skip(complete.folder, damage);
    }
    const damaged = (await this.#names()).filter((name) => parseName(name) !== undefined);
    if (damaged.length === 0) return undefined;
    throw new HindsearchError(
      "INVALID_CHECKPOINT",
      `None of the ${damaged.length} checkpoints in ${this.folder} can be used; the warnings say why. Restore one from a ` +
        "backup. To begin the run anew instead, delete them.",
    );
  }

  /**
   * The checkpoint with the highest score, the earliest of equal ones; `undefined` if none has a score. Checksums are
   * compared.
   *
   * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if it is damaged: the second best is another model, which nobody
   * asked for; `IO`.
   */
  async best(): Promise<CheckpointFolder | undefined> {
    const sealed = (await this.#found()).flatMap((one) => (one.seal ? [{ ...one, seal: one.seal }] : []));
    const best = bestOf(sealed.map(checkpointOf));
    return best && this.at(best.step);
  }

  /**
   * The checkpoint of a step; `undefined` if there is none. Checksums are compared.
   *
   * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if it is damaged; `IO`.
   */
  async at(step: number): Promise<CheckpointFolder | undefined> {
    const found = (await this.#found()).find((one) => one.step === step);
    if (found === undefined) return undefined;
    const { folder, seal } = found;
    const damage = found.damage ?? (seal && (await findDamage(folder, seal)));
    if (seal && damage === undefined) return checkpointOf({ step, folder, seal });
    throw new HindsearchError(
      "INVALID_CHECKPOINT",
      `Checkpoint ${folder} cannot be used: ${damage}. Restore it from a backup, or choose another one.`,
    );
  }

  /** Deletes all complete checkpoints but the newest `keep` and the one with the highest score. */
  async prune(keep: number): Promise<void> {
    const all = await this.list();
    const best = bestOf(all);
    for (const { folder } of all.slice(0, Math.max(0, all.length - keep))) {
      if (folder === best?.folder) continue;
      await io(`delete the checkpoint ${folder}`, async () => {
        // Half-deleted it must not look complete.
        const aside = `${folder}${PARTIAL}`;
        await rename(folder, aside);
        await rm(aside, { recursive: true });
      });
    }
  }

  async #names(): Promise<string[]> {
    try {
      return (await readdir(this.folder)).sort();
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw new HindsearchError("IO", `Cannot list the checkpoints: ${(cause as Error).message}.`, { cause });
    }
  }

  async #complete(): Promise<Complete[]> {
    const complete: Complete[] = [];
    for (const { step, folder, seal, damage } of await this.#found()) {
      // In the place of one that can be used it would be all that pruning leaves.
      if (this.#damaged.has(folder)) continue;
      if (damage !== undefined) this.#skip(folder, damage);
      else if (seal) complete.push({ step, folder, seal });
    }
    return complete;
  }

  /** What is called a checkpoint, oldest first, whole or not. */
  async #found(): Promise<Found[]> {
    const found: Found[] = [];
    for (const name of await this.#names()) {
      const folder = join(this.folder, name);
      const step = parseName(name);
      if (step !== undefined) {
        found.push({ step, folder, ...(await readSeal(folder, step)) });
        continue;
      }
      const killed = name.endsWith(PARTIAL);
      this.#skip(folder, killed ? "it was not written to its end" : "its name is not step-NNNNNNNN");
    }
    return found.sort((a, b) => a.step - b.step);
  }

  /** Says each thing once: the folders are looked through behind every checkpoint. */
  #skip(folder: string, reason: string): void {
    const warning = `Checkpoint ${folder} is skipped: ${reason}.`;
    if (this.#said.has(warning)) return;
    this.#said.add(warning);
    this.onWarning(warning);
  }
}

interface Found extends FoundSeal {
  step: number;
  folder: string;
}

interface Complete extends Found {
  seal: Seal;
}

function checkpointOf({ step, folder, seal: { score } }: Complete): CheckpointFolder {
  return { step, folder, ...(score !== undefined && { score }) };
}

/** Renames a folder; false if there is none. */
async function moveAside(folder: string, aside: string): Promise<boolean> {
  try {
    await rename(folder, aside);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

function bestOf(checkpoints: readonly CheckpointFolder[]): CheckpointFolder | undefined {
  let best: CheckpointFolder | undefined;
  for (const checkpoint of checkpoints) {
    if ((checkpoint.score ?? Number.NEGATIVE_INFINITY) > (best?.score ?? Number.NEGATIVE_INFINITY))
      best = checkpoint;
  }
  return best;
}

function folderName(step: number): string {
  return `step-${String(step).padStart(8, "0")}`;
}

function parseName(name: string): number | undefined {
  const match = /^step-(\d{8,})$/.exec(name);
  return match === null ? undefined : Number(match[1]);
}

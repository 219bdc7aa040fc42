import { randomUUID } from "node:crypto";
import { constants, readFileSync, readlinkSync } from "node:fs";
import { copyFile, link, readFile, stat, unlink, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { z } from "zod";
import { type AbortOptions, sleep } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { io } from "./io.js";

/** Who holds a lock, as the lock file says. */
const Owner = z.object({
  version: z.literal(1),
  /** Of this holding of the lock. */
  token: z.string(),
  pid: z.int(),
  host: z.string(),
  /** Names the running system and its process numbers; `null` where that cannot be told. */
  system: z.string().nullable(),
  /** When the process started, in the system's ticks: a number that is given again has another one. */
  started: z.string().nullable(),
  /** ISO time. */
  since: z.string(),
});
type Owner = z.output<typeof Owner>;

/** How often an owner shows that it is alive. */
const BEAT_MS = 5_000;
/** An owner that cannot be looked up and was silent for so long is dead. */
const SILENCE_MS = 60_000;
/** How often its lock is looked at meanwhile. */
const LOOK_MS = 500;
/** Removing the lock of a dead owner takes no longer. */
const CLAIM_MS = 5_000;

/** Held by this copy of the module. */
const held = new Set<string>();

/** Options of {@link FolderLock.acquire}. @internal */
export interface LockOptions extends AbortOptions {
  /** How long an owner that cannot be looked up may be silent. Default: a minute. */
  silenceMs?: number;
}

/**
 * The right to write to a run folder, as a file in it. It outlives a killed owner, so whoever wants it next finds out
 * whether that one is alive:
 *
 * - In the same system (same boot, same numbering of processes) the process is looked up by number and start time.
 * - Otherwise (another machine, another container, another thread) its sign of life counts, the file's time: a living
 *   owner touches the file every 5 seconds, and one that was silent for a minute is dead. That is waited for.
 *
 * @internal
 */
export class FolderLock {
  readonly #timer: NodeJS.Timeout;

  private constructor(
    private readonly path: string,
    private readonly token: string,
  ) {
    this.#timer = setInterval(() => {
      const now = new Date();
      // A failure shows itself at the next check.
      utimes(path, now, now).catch(() => undefined);
    }, BEAT_MS);
    this.#timer.unref();
  }

  /**
   * Takes the lock, or waits up to a minute to find out that its owner is dead.
   *
   * @param path - The file.
   * @param onWarning - Hears when a dead owner's lock is taken over, or waited for.
   * @throws {@link HindsearchError} `RUN_LOCKED` if a living process holds it; `IO`; `ABORTED`.
   */
  static acquire(
    path: string,
    onWarning: (warning: string) => void,
    options: LockOptions = {},
  ): Promise<FolderLock> {
    return io(`lock ${path}`, async () => {
      const owner = describeSelf();
      const mine = `${path}.${owner.token}`;
      // Others of this process must know it as soon as it is there.
      held.add(owner.token);
      try {
        await writeFile(mine, `${JSON.stringify(owner, null, 2)}\n`, { flag: "wx" });
        while (!(await place(mine, path))) {
          const dead = await findDeadOwner(path, onWarning, options);
          if (dead !== undefined) await remove(path, dead, options.signal);
        }
      } catch (error) {
        held.delete(owner.token);
        throw error;
      } finally {
        await unlinkIfThere(mine);
      }
      return new FolderLock(path, owner.token);
    });
  }

  /**
   * Makes sure that the lock is still this one's: a process that was stopped for minutes may have been given up.
   *
   * @throws {@link HindsearchError} `RUN_LOCKED`.
   */
  async check(): Promise<void> {
    const owner = await readOwner(this.path);
    if (owner?.token === this.token) return;
    throw new HindsearchError(
      "RUN_LOCKED",
      `${this.path} is no longer that of this process: ${owner === undefined ? "it was removed" : `${describe(owner)} has taken it over`}. ` +
        "Nothing more is written.",
    );
  }

  /** Gives the lock back, if it is still this one's. */
  async release(): Promise<void> {
    clearInterval(this.#timer);
    if ((await readOwner(this.path))?.token === this.token) await unlink(this.path).catch(() => undefined);
    held.delete(this.token);
  }
}

/** Links the file into its place, which the file system does at once or not at all. */
async function place(mine: string, path: string): Promise<boolean> {
  try {
    await link(mine, path).catch(async (error: NodeJS.ErrnoException) => {
      // File systems without links.
      if (!/^(EPERM|ENOSYS|ENOTSUP|EOPNOTSUPP)$/.test(error.code ?? "")) throw error;
      await copyFile(mine, path, constants.COPYFILE_EXCL);
    });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes the lock of a dead owner. Of several that want to, the one does it that makes the file of this name; otherwise
 * the slower one would remove the lock that the faster one has by now.
 */
async function remove(path: string, dead: Owner | null, signal: AbortSignal | undefined): Promise<void> {
  const claim = `${path}.${dead?.token ?? "unknown"}.dead`;
  try {
    await writeFile(claim, "", { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    // The other one needs milliseconds, unless it was killed over it.
    const beat = await beatOf(claim);
    for (const start = performance.now(); beat !== undefined; await sleep(20, signal)) {
      if ((await beatOf(claim)) !== beat) return;
      if (performance.now() - start > CLAIM_MS) await unlinkIfThere(claim);
    }
    return;
  }
  try {
    const owner = await readOwner(path);
    if (owner !== undefined && owner?.token === dead?.token) await unlinkIfThere(path);
  } finally {
    await unlinkIfThere(claim);
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
}

/**
 * Finds out about the owner of the lock.
 *
 * @returns A dead owner, `null` for one that the file does not name, `undefined` if the lock is gone by now.
 * @throws {@link HindsearchError} `RUN_LOCKED` if it lives.
 */
async function findDeadOwner(
  path: string,
  onWarning: (warning: string) => void,
  { signal, silenceMs = SILENCE_MS }: LockOptions,
): Promise<Owner | null | undefined> {
  const beat = await beatOf(path);
  const owner = await readOwner(path);
  if (beat === undefined || owner === undefined) return undefined;
  const alive = owner === null ? undefined : isAlive(owner);
  if (alive === true) throw locked(path, owner);
  if (alive === false) {
    onWarning(`${describe(owner)} ended without giving back ${path}; it is taken over.`);
    return owner;
  }
  onWarning(`Waiting for a sign of life of ${describe(owner)}, which holds ${path}.`);
  // A change counts, not a time: the clocks of two machines differ.
  for (const start = performance.now(); performance.now() - start < silenceMs; await sleep(LOOK_MS, signal)) {
    const now = await beatOf(path);
    if (now === undefined) return undefined;
    if (now !== beat) throw locked(path, owner);
  }
  onWarning(`${describe(owner)} gave no sign of life for ${silenceMs / 1000} s; ${path} is taken over.`);
  return owner;
}

function locked(path: string, owner: Owner | null): HindsearchError {
  return new HindsearchError(
    "RUN_LOCKED",
    `${describe(owner)} is writing to this run folder (${path}). Stop it first, or choose ` +
      "another folder; two trainers on one folder would destroy the run.",
  );
}

function describe(owner: Owner | null): string {
  if (owner === null) return "A process without a name";
  const { token, pid, host, since } = owner;
  return held.has(token) ? `This process (since ${since})` : `Process ${pid} on ${host} (since ${since})`;
}

/** Time of the last sign of life in milliseconds; `undefined` without a lock. */
async function beatOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** `undefined` without a lock; `null` if the file is damaged. */
async function readOwner(path: string): Promise<Owner | null | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return Owner.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Whether an owner lives; `undefined` if only its signs of life can tell. */
function isAlive(owner: Owner): boolean | undefined {
  if (held.has(owner.token)) return true;
  // Of this process, but not of this copy of the module: of a worker thread, alive or not.
  const self = describeSelf();
  if (owner.system === null || owner.system !== self.system) return undefined;
  if (owner.pid === process.pid && owner.started === self.started) return undefined;
  const started = startOf(owner.pid);
  if (started !== undefined) return started === owner.started;
  try {
    process.kill(owner.pid, 0);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" ? undefined : false;
  }
}

function describeSelf(): Owner {
  return {
    version: 1,
    token: randomUUID(),
    pid: process.pid,
    host: hostname(),
    system: systemName(),
    started: startOf(process.pid) ?? null,
    since: new Date().toISOString(),
  };
}

/** Process numbers are only comparable within one boot and one process namespace. */
function systemName(): string | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    // Systems without /proc have one numbering.
    return process.platform === "linux" ? null : hostname();
  }
}

/** Start time of a living process in ticks; `undefined` where that cannot be told. */
function startOf(pid: number): string | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name in brackets, which may hold anything.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    // A zombie is dead, only not yet fetched.
    return fields[0] === "Z" ? "" : fields[19];
  } catch {
    return undefined;
  }
}

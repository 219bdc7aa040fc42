import { randomUUID } from "node:crypto";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { makeFolder } from "../make-folder.js";
import { emitWarning } from "../warning.js";
import { type CheckpointFolder, CheckpointStore } from "./checkpoints.js";
import { syncFolder, writeFileDurably } from "./durable.js";
import { io } from "./io.js";
import { FolderLock } from "./lock.js";
import { LogFile, type RunRecord } from "./log-file.js";
import { redactSecrets } from "./redact.js";
import { withRegularFile } from "./regular-file.js";

/** Line files of a run. */
export type RunLog = "metrics" | "trajectories";

/** Of everything in a run folder; see docs/run-folder.md. */
const VERSION = 1;

/** Settings are kilobytes; whoever looks at a folder of runs reads those of all of them. */
const MAX_JSON_BYTES = 2 ** 22;

const Identity = z.object({ version: z.int(), id: z.string().min(1), created: z.string() });

/**
 * A run as a folder of plain files that other tools can read:
 *
 * | file | what |
 * |---|---|
 * | `run.json` | version of the format, name of the run, when it began |
 * | `config.json` | the settings, secrets redacted |
 * | `metrics.jsonl` | one line per training step or evaluation |
 * | `trajectories.jsonl` | one line per trajectory |
 * | `checkpoints/step-00000010/` | model, optimizer and trainer state after that many steps |
 * | `lock` | while a process writes |
 *
 * Lines are appended whole, in the order of the calls and of their steps. A line that a crash cut off is dropped when the
 * run is written to again. Any number of processes may read; the first write takes the lock, which {@link close} gives
 * back, and one process at a time holds it.
 */
export class RunDirectory {
  /** Where it is. */
  readonly folder: string;
  /** Name of the run: the same before and after every resume, and in no other folder. */
  readonly id: string;
  /** When it was created, ISO time. */
  readonly created: string;
  /** Its checkpoints. Written through {@link checkpoint}. */
  readonly checkpoints: CheckpointStore;
  readonly #logs: Readonly<Record<RunLog, LogFile>>;
  readonly #onWarning: (warning: string) => void;
  #lock: Promise<FolderLock> | undefined;

  private constructor(
    folder: string,
    { id, created }: z.output<typeof Identity>,
    onWarning: (warning: string) => void,
  ) {
    this.folder = folder;
    this.id = id;
    this.created = created;
    this.#onWarning = onWarning;
    this.checkpoints = new CheckpointStore(join(folder, "checkpoints"), onWarning);
    this.#logs = {
      metrics: new LogFile(join(folder, "metrics.jsonl"), onWarning),
      trajectories: new LogFile(join(folder, "trajectories.jsonl"), onWarning),
    };
  }

  /**
   * Starts a run in a folder that holds none yet, and locks it; the folder is made if it is missing.
   *
   * @param folder - Where.
   * @param config - Settings for `config.json`, any JSON; secrets are redacted.
   * @param onWarning - Hears what is odd but no error. Default: `process.emitWarning`.
   * @param options - `signal` ends the wait for the lock of a process that cannot be looked up, which may take a minute.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the folder holds a run, `RUN_LOCKED`, `IO`, `ABORTED`.
   */
  static async create(
    folder: string,
    config: unknown,
    onWarning: (warning: string) => void = emitWarning,
    options: AbortOptions = {},
  ): Promise<RunDirectory> {
    await refuseRun(folder);
    await io(`make the run folder ${folder}`, () => makeFolder(join(folder, "checkpoints")));
    const identity = { version: VERSION, id: randomUUID(), created: new Date().toISOString() };
    const run = new RunDirectory(folder, identity, onWarning);
    try {
      await run.lock(options);
      // Another process may have created one meanwhile.
      await refuseRun(folder);
      await run.#write("run.json", identity);
      // Last: a folder without it holds no run.
      await run.writeConfig(config);
    } catch (error) {
      await run.close();
      throw error;
    }
    return run;
  }

  /**
   * Opens a run that exists, to read it or to go on with it.
   *
   * @param folder - Where.
   * @param onWarning - Hears what is odd but no error. Default: `process.emitWarning`.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the folder holds no run; `RUN_MISMATCH` if a newer version of this
   * package wrote it; `IO`.
   */
  static async open(
    folder: string,
    onWarning: (warning: string) => void = emitWarning,
  ): Promise<RunDirectory> {
    if (!(await RunDirectory.exists(folder))) {
      throw new HindsearchError("INVALID_ARGUMENT", `${folder} holds no run: there is no config.json in it.`);
    }
    const identity = Identity.safeParse(await readJson(join(folder, "run.json")));
    if (!identity.success) {
      throw new HindsearchError("IO", `${join(folder, "run.json")} is not what describes a run.`, {
        cause: identity.error,
      });
    }
    if (identity.data.version !== VERSION) {
      throw new HindsearchError(
        "RUN_MISMATCH",
        `${folder} is a run folder of version ${identity.data.version}; this package knows version ${VERSION}. ` +
          "Use the package that wrote it, or a newer one.",
      );
    }
    return new RunDirectory(folder, identity.data, onWarning);
  }

  /** Whether a folder holds a run. */
  static exists(folder: string): Promise<boolean> {
    return access(join(folder, "config.json")).then(
      () => true,
      () => false,
    );
  }

  /**
   * Takes the right to write, unless this object has it. Whatever writes does so by itself.
   *
   * @throws {@link HindsearchError} `RUN_LOCKED` if another process, or another object of this one, has it; `IO` if the
   * folder cannot be written; `ABORTED`: whether the owner of a lock lives may take a minute to find out.
   */
  async lock(options: AbortOptions = {}): Promise<void> {
    this.#lock ??= FolderLock.acquire(join(this.folder, "lock"), this.#onWarning, options).catch((error) => {
      this.#lock = undefined;
      throw error;
    });
    // One that was lost is not taken again: whoever has it now has gone on with the run.
    await (await this.#lock).check();
  }

  /** Waits for the writes under way and gives the right to write back. Reading goes on. */
  async close(): Promise<void> {
    const lock = this.#lock;
    this.#lock = undefined;
    await Promise.all(Object.values(this.#logs).map((log) => log.idle()));
    await (await lock?.catch(() => undefined))?.release();
  }

  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The settings as they were written. */
  config(): Promise<unknown> {
    return readJson(join(this.folder, "config.json"));
  }

  /**
   * Writes `config.json`; secrets are redacted.
   *
   * @param step - The step at which the run goes on with these settings: those before are kept as
   * `config.until-step-NNNNNNNN.json`, unless there is such a file already.
   */
  async writeConfig(config: unknown, step?: number): Promise<void> {
    if (step !== undefined) {
      const former = `config.until-step-${String(step).padStart(8, "0")}.json`;
      const known = await access(join(this.folder, former)).then(
        () => true,
        () => false,
      );
      if (!known) await this.#write(former, await this.config());
    }
    await this.#write("config.json", redactSecrets(config));
  }

  /**
   * Appends records to a log, whole or not at all. NaN and infinities become `null`, as JSON has none.
   *
   * @throws {@link HindsearchError} `IO`, `RUN_LOCKED`; `INVALID_ARGUMENT` for a record of an earlier step than the last
   * one's.
   */
  async append(log: RunLog, records: readonly RunRecord[]): Promise<void> {
    const ready = this.lock();
    await this.#logs[log].append(records, ready);
  }

  /**
   * Reads a log line by line, also while it is written to. A last line that is cut off is left out with a warning.
   *
   * @throws {@link HindsearchError} `INVALID_DATA` for another damaged line, `IO`.
   */
  read(log: RunLog): AsyncGenerator<RunRecord, void> {
    return this.#logs[log].read();
  }

  /**
   * Drops the records of step `step` and later from the logs: a run that resumes from the checkpoint of that step
   * makes them again.
   */
  async rewind(step: number): Promise<void> {
    await this.lock();
    for (const log of Object.values(this.#logs)) await log.rewind(step);
  }

  /**
   * Saves a checkpoint, see {@link CheckpointStore.write}. Everything appended before is on disk by then; between two
   * checkpoints only the system's own buffering keeps it.
   *
   * @returns Its folder.
   */
  async checkpoint(
    step: number,
    write: (folder: string) => Promise<void>,
    score?: number,
  ): Promise<CheckpointFolder> {
    await this.lock();
    for (const log of Object.values(this.#logs)) await log.sync();
    // The names of logs that are new are only on disk once their folder is.
    await io(`write to ${this.folder}`, () => syncFolder(this.folder));
    return this.checkpoints.write(step, write, score);
  }

  #write(name: string, contents: unknown): Promise<void> {
    const path = join(this.folder, name);
    return io(`write ${path}`, async () => {
      await this.lock();
      await writeFileDurably(path, `${JSON.stringify(contents, null, 2)}\n`);
    });
  }
}

async function refuseRun(folder: string): Promise<void> {
  if (!(await RunDirectory.exists(folder))) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${folder} already holds a run (config.json). Resume it, or choose another folder.`,
  );
}

async function readJson(path: string): Promise<unknown> {
  const refuse = (why: string, cause?: unknown) =>
    new HindsearchError("IO", `${path} cannot be read as JSON: ${why}.`, { cause });
  try {
    const text = await withRegularFile(path, async (file, size) => {
      if (size > MAX_JSON_BYTES) throw refuse(`it has ${size} bytes, expected at most ${MAX_JSON_BYTES}`);
      return file.readFile("utf8");
    });
    return JSON.parse(text);
  } catch (cause) {
    throw cause instanceof HindsearchError ? cause : refuse((cause as Error).message, cause);
  }
}

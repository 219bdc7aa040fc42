import { createReadStream } from "node:fs";
import { access, type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { HindsearchError } from "../errors.js";
import { emitWarning } from "../warning.js";
import { type CheckpointFolder, CheckpointStore } from "./checkpoints.js";
import { syncFolder, syncPath, writeFileDurably } from "./durable.js";
import { redactSecrets } from "./redact.js";

/** A record of a run: one line of a JSONL file. */
export interface RunRecord {
  /** The training step that it belongs to. */
  step: number;
  [key: string]: unknown;
}

/** Line files of a run. */
export type RunLog = "metrics" | "trajectories";

const LOGS: readonly RunLog[] = ["metrics", "trajectories"];

/**
 * A run as a folder of plain files that other tools can read:
 *
 * | file | what |
 * |---|---|
 * | `config.json` | the settings, secrets redacted |
 * | `metrics.jsonl` | one line per training step or evaluation |
 * | `trajectories.jsonl` | one line per trajectory |
 * | `checkpoints/step-00000010/` | model, optimizer and trainer state after that many steps |
 *
 * Lines are appended whole, in the order of the calls. A line that a crash cut off is dropped when the run is opened
 * again and written to. One process at a time writes to a run.
 */
export class RunDirectory {
  /** Where it is. */
  readonly folder: string;
  /** Its checkpoints. */
  readonly checkpoints: CheckpointStore;
  /** Logs whose last line is known to be whole. */
  readonly #whole = new Set<RunLog>();
  #writes: Promise<unknown> = Promise.resolve();

  private constructor(folder: string, onWarning: (warning: string) => void) {
    this.folder = folder;
    this.checkpoints = new CheckpointStore(join(folder, "checkpoints"), onWarning);
  }

  /**
   * Starts a run in a folder that holds none yet; the folder is made if it is missing.
   *
   * @param folder - Where.
   * @param config - Settings for `config.json`, any JSON; secrets are redacted.
   * @param onWarning - Hears of checkpoints that are skipped. Default: `process.emitWarning`.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the folder holds a run, `IO`.
   */
  static async create(
    folder: string,
    config: unknown,
    onWarning: (warning: string) => void = emitWarning,
  ): Promise<RunDirectory> {
    const file = join(folder, "config.json");
    if (await exists(file)) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `${folder} already holds a run (config.json). Resume it, or choose another folder.`,
      );
    }
    await io(`make the run folder ${folder}`, async () => {
      await mkdir(join(folder, "checkpoints"), { recursive: true });
      await writeFileDurably(file, `${JSON.stringify(redactSecrets(config), null, 2)}\n`);
    });
    return new RunDirectory(folder, onWarning);
  }

  /**
   * Opens a run that exists.
   *
   * @param folder - Where.
   * @param onWarning - Hears of checkpoints that are skipped. Default: `process.emitWarning`.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the folder holds no run.
   */
  static async open(
    folder: string,
    onWarning: (warning: string) => void = emitWarning,
  ): Promise<RunDirectory> {
    if (!(await exists(join(folder, "config.json")))) {
      throw new HindsearchError("INVALID_ARGUMENT", `${folder} holds no run: there is no config.json in it.`);
    }
    return new RunDirectory(folder, onWarning);
  }

  /** Whether a folder holds a run. */
  static exists(folder: string): Promise<boolean> {
    return exists(join(folder, "config.json"));
  }

  /** The settings as they were written. */
  async config(): Promise<unknown> {
    const file = join(this.folder, "config.json");
    try {
      return JSON.parse(await readFile(file, "utf8"));
    } catch (cause) {
      throw new HindsearchError("IO", `${file} cannot be read as JSON.`, { cause });
    }
  }

  /** Appends records to a log. NaN and infinities become `null`, as JSON has none. */
  append(log: RunLog, records: readonly RunRecord[]): Promise<void> {
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    return this.#queue(async () => {
      const file = await open(this.#path(log), "a+");
      try {
        if (!this.#whole.delete(log)) await dropCutLine(file);
        await file.appendFile(text);
        this.#whole.add(log);
      } finally {
        await file.close();
      }
    });
  }

  /** Reads a log line by line. A last line that is cut off is left out. */
  async *read(log: RunLog): AsyncGenerator<RunRecord> {
    if (!(await exists(this.#path(log)))) return;
    for await (const { record } of lines(this.#path(log))) yield record;
  }

  /**
   * Drops the records of step `step` and later from the logs: a run that resumes from the checkpoint of that step
   * makes them again.
   */
  rewind(step: number): Promise<void> {
    return this.#queue(async () => {
      for (const log of LOGS) {
        const path = this.#path(log);
        if (!(await exists(path))) continue;
        const partial = `${path}.partial`;
        const file = await open(partial, "w");
        try {
          for await (const { line, record } of lines(path)) {
            if (record.step < step) await file.appendFile(`${line}\n`);
          }
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(partial, path);
      }
      await syncFolder(this.folder);
    });
  }

  /**
   * Saves a checkpoint, see {@link CheckpointStore.write}. Everything appended before is on disk by then; between two
   * checkpoints only the system's own buffering keeps it.
   *
   * @returns Its folder.
   */
  async checkpoint(step: number, write: (folder: string) => Promise<void>): Promise<CheckpointFolder> {
    await this.#queue(async () => {
      for (const log of LOGS) if (await exists(this.#path(log))) await syncPath(this.#path(log));
    });
    return this.checkpoints.write(step, write);
  }

  #path(log: RunLog): string {
    return join(this.folder, `${log}.jsonl`);
  }

  /** One write at a time: appends of concurrent callers would interleave otherwise. */
  #queue(write: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(() => io(`write to the run folder ${this.folder}`, write));
    this.#writes = done.catch(() => undefined);
    return done;
  }
}

/** Cuts off what stands behind the last line feed: a record that a crash cut off would swallow the next one. */
async function dropCutLine(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  const buffer = Buffer.alloc(65_536);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - buffer.length);
    const { bytesRead } = await file.read(buffer, 0, end - start, start);
    const feed = buffer.subarray(0, bytesRead).lastIndexOf(10);
    if (feed >= 0) return start + feed + 1 < size ? file.truncate(start + feed + 1) : undefined;
    end = start;
  }
  if (size > 0) await file.truncate(0);
}

async function* lines(path: string): AsyncGenerator<{ line: string; record: RunRecord }> {
  const reader = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  let broken: number | undefined;
  for await (const line of reader) {
    number++;
    if (broken !== undefined) {
      throw new HindsearchError("IO", `${path} line ${broken} is no JSON; only a last line may be cut off.`);
    }
    try {
      yield { line, record: JSON.parse(line) as RunRecord };
    } catch {
      broken = number;
    }
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function io<T>(what: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HindsearchError("IO", `Could not ${what}: ${reason}`, { cause });
  }
}

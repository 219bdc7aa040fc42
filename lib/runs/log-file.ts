import { open } from "node:fs/promises";
import { HindsearchError } from "../errors.js";
import { syncPath } from "./durable.js";
import { io } from "./io.js";
import { linesBackwards, linesOf } from "./lines.js";

/** A record of a run: one line of a JSONL file. */
export interface RunRecord {
  /** The training step that it belongs to. */
  step: number;
  [key: string]: unknown;
}

/**
 * A file of one JSON record a line, in the order of their steps, to which one process appends.
 *
 * Records are there whole or not at all. A line that a crash cut off is left out when it is read, and cut away, with a
 * warning, before the file is written to again.
 *
 * @internal
 */
export class LogFile {
  /** Step of the last line; `undefined` while it is not known whether that line is whole. */
  #last: number | undefined;
  #writes: Promise<unknown> = Promise.resolve();

  constructor(
    readonly path: string,
    private readonly onWarning: (warning: string) => void,
  ) {}

  /**
   * Appends records whole and in the order of the calls. NaN and infinities become `null`, as JSON has none.
   *
   * @param ready - Is waited for before anything is written, and keeps its place in the order.
   * @throws {@link HindsearchError} `IO`, and then nothing was appended; `INVALID_ARGUMENT` if steps fall.
   */
  append(records: readonly RunRecord[], ready?: Promise<void>): Promise<void> {
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    // It may fail before its turn comes.
    ready?.catch(() => undefined);
    return this.#queue(async () => {
      await ready;
      await using file = await open(this.path, "a+");
      let last = this.#last ?? (await this.#mend(file));
      for (const { step } of records) {
        if (!(step >= last)) throw this.#outOfOrder(step, last);
        last = step;
      }
      this.#last = undefined;
      const { size } = await file.stat();
      try {
        await file.appendFile(text);
      } catch (error) {
        // What is there of the records must not be taken for whole. Making a file shorter needs no space.
        await file.truncate(size).catch(() => undefined);
        throw error;
      }
      this.#last = last;
    });
  }

  /**
   * Reads record by record, also while another process appends. A last line that is cut off is left out with a warning.
   *
   * @throws {@link HindsearchError} `INVALID_DATA` for any other line that is damaged, `IO`.
   */
  async *read(): AsyncGenerator<RunRecord, void> {
    let number = 0;
    try {
      for await (const item of linesOf(this.path)) {
        if ("rest" in item) {
          if (item.rest > 0) this.onWarning(`${this.path} ends in a line that was cut off; it is left out.`);
          return;
        }
        number++;
        const record = parse(item.line);
        if (record === undefined) throw this.#damaged(number);
        yield record;
      }
    } catch (cause) {
      if (cause instanceof HindsearchError) throw cause;
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return;
      throw new HindsearchError("IO", `Cannot read ${this.path}: ${(cause as Error).message}.`, { cause });
    }
  }

  /** Drops the records of step `step` and later, and what damage there is behind the ones that stay. */
  rewind(step: number): Promise<void> {
    return this.#queue(async () => {
      let file: Awaited<ReturnType<typeof open>>;
      try {
        file = await open(this.path, "r+");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
        throw error;
      }
      try {
        this.#last = undefined;
        await this.#mend(file, step);
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }

  /** Waits for the writes under way. */
  async idle(): Promise<void> {
    await this.#writes;
  }

  /** Waits for what was appended before, and puts it on disk. */
  sync(): Promise<void> {
    return this.#queue(async () => {
      await syncPath(this.path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
    });
  }

  /**
   * Cuts off lines from the end until one is whole and of a step before `before`.
   *
   * @returns The step of that line, or -1.
   */
  async #mend(file: Awaited<ReturnType<typeof open>>, before = Number.POSITIVE_INFINITY): Promise<number> {
    const { size } = await file.stat();
    let end = size;
    let damaged = 0;
    let last = -1;
    let behindLines = true;
    for await (const { start, line } of linesBackwards(file)) {
      const record = behindLines ? undefined : parse(line);
      if (record !== undefined && record.step < before) {
        last = record.step;
        break;
      }
      // Without a checkpoint to go back to, a damaged line is for whoever reads the file to judge.
      if (record === undefined && !behindLines && before === Number.POSITIVE_INFINITY) break;
      if (record === undefined && (line !== "" || !behindLines)) damaged++;
      behindLines = false;
      end = start;
    }
    if (end < size) await file.truncate(end);
    if (damaged > 0) {
      this.onWarning(
        `${this.path} ended in ${damaged === 1 ? "a line" : `${damaged} lines`} cut off or damaged by a crash: ` +
          `${damaged === 1 ? "it was" : "they were"} removed.`,
      );
    }
    return last;
  }

  /** One write at a time: appends of concurrent callers would interleave otherwise. */
  #queue(write: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(() => io(`write to ${this.path}`, write));
    this.#writes = done.catch(() => undefined);
    return done;
  }

  #damaged(number: number): HindsearchError {
    return new HindsearchError(
      "INVALID_DATA",
      `${this.path}, line ${number}: no JSON record with a step; only a last line may be cut off.`,
    );
  }

  #outOfOrder(step: number, last: number): HindsearchError {
    return new HindsearchError(
      "INVALID_ARGUMENT",
      `A record of step ${step} was to be appended to ${this.path} behind one of step ${last}; records must come in the ` +
        "order of their steps.",
    );
  }
}

function parse(line: string): RunRecord | undefined {
  try {
    const record = JSON.parse(line) as RunRecord | null;
    return typeof record === "object" && typeof record?.step === "number" ? record : undefined;
  } catch {
    return undefined;
  }
}

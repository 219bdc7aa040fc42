import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { HindsearchError } from "../../errors.js";
import { makeFolder } from "../../make-folder.js";
import { parseOptions } from "../../network/options.js";
import { encodeRecord, FILE_VERSION, type TensorBoardEvent } from "./event-file.js";
import type { MetricPoint, MetricSink, SinkRun } from "./metric-sink.js";

/** Options of {@link TensorBoardSink}. */
export interface TensorBoardSinkOptions {
  /** Where the event files go. Default: `tensorboard` in the run folder. */
  folder?: string | undefined;
}

/** Schema of {@link TensorBoardSinkOptions}. @internal */
export const tensorBoardShape = { folder: z.string().min(1).optional() };
const Options = z.strictObject(tensorBoardShape);

/** Of this process, so that two files of one second have two names. */
let files = 0;

/**
 * Writes scalars as TensorBoard event files, one file for each time that the run is started or resumed: `tensorboard --logdir
 * runs` shows them. After a resume TensorBoard drops the points of steps that are made again.
 */
export class TensorBoardSink implements MetricSink {
  /** For messages. */
  readonly name = "tensorboard";
  readonly #folder: string | undefined;
  #file: string | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor(options: TensorBoardSinkOptions = {}) {
    this.#folder = parseOptions(Options, options, "TensorBoardSink").folder;
  }

  /** Begins a file. */
  async start({ folder, step }: SinkRun): Promise<void> {
    const place = this.#folder ?? (folder === undefined ? undefined : join(folder, "tensorboard"));
    if (place === undefined) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        "A TensorBoardSink needs a folder, or a run with a run folder.",
      );
    }
    await makeFolder(place);
    const seconds = Math.floor(Date.now() / 1000);
    const file = join(place, `events.out.tfevents.${seconds}.hindsearch.${process.pid}.${files++}`);
    const wallTime = Date.now() / 1000;
    const head: TensorBoardEvent[] = [
      { wallTime, fileVersion: FILE_VERSION },
      // A reader drops what it has of this step and later.
      { wallTime, step: step === 0 ? 0 : step + 1, sessionStart: true },
    ];
    await writeFile(file, Buffer.concat(head.map(encodeRecord)), { flag: "wx" });
    this.#file = file;
  }

  /** Appends points. */
  async write(points: readonly MetricPoint[]): Promise<void> {
    await appendFile(this.#file as string, Buffer.concat(eventsOf(points).map(encodeRecord)));
  }
}

/** One event for neighbouring points of one step and time. */
function eventsOf(points: readonly MetricPoint[]): TensorBoardEvent[] {
  const events: { wallTime: number; step: number; scalars: { tag: string; value: number }[] }[] = [];
  for (const { name, value, step, time } of points) {
    const wallTime = time / 1000;
    let event = events.at(-1);
    if (event?.step !== step || event.wallTime !== wallTime) {
      event = { wallTime, step, scalars: [] };
      events.push(event);
    }
    event.scalars.push({ tag: name, value });
  }
  return events;
}

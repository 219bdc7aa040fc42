import { access, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ReadConfiguration } from "../config/read.js";
import { HindsearchError } from "../errors.js";
import { type CheckpointFolder, CheckpointStore } from "../runs/checkpoints.js";
import { type CommandContext, type ConfigurationOptions, readFor } from "./context.js";

/** The configuration of a run, in its folder. */
export const CONFIGURATION_FILE = "training.yaml";

/** A model that a command was pointed at, by a configuration or a run. */
export interface Target {
  /** Of the run. */
  configuration: ReadConfiguration;
  /** The model's folder, in place of the configured one. */
  model: string | undefined;
  /** Training steps done; `undefined` if it is no checkpoint. */
  step: number | undefined;
}

/** Which model of a run. */
export interface TargetOptions extends ConfigurationOptions {
  /** `latest`, `best`, `initial`, or the number of steps. */
  checkpoint?: string;
  /** A folder. */
  model?: string;
}

/**
 * The model that a path means: a configuration file with its initial model, or a run folder with its latest checkpoint.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a checkpoint that is not there; what reading a configuration throws.
 */
export async function readTarget(
  context: CommandContext,
  path: string,
  options: TargetOptions,
): Promise<Target> {
  const isFolder = await stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
  if (isFolder) await requireConfiguration(path);
  const configuration = await readFor(context, isFolder ? join(path, CONFIGURATION_FILE) : path, options);
  const { checkpoint = isFolder ? "latest" : "initial", model } = options;
  if (model !== undefined) return { configuration, model, step: undefined };
  if (checkpoint === "initial") return { configuration, model: undefined, step: undefined };
  const run = isFolder ? path : configuration.resolve(configuration.values.run.folder);
  const store = new CheckpointStore(join(run, "checkpoints"), (warning) => context.output.warn(warning));
  const wanted = await find(store, checkpoint);
  if (wanted !== undefined) return { configuration, model: join(wanted.folder, "model"), step: wanted.step };
  const steps = (await store.list()).map(({ step }) => step).join(", ");
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${run} has no checkpoint ${checkpoint}; ${steps === "" ? "it has none yet" : `there are those of steps ${steps}`}.`,
  );
}

async function requireConfiguration(folder: string): Promise<void> {
  await access(join(folder, CONFIGURATION_FILE)).catch((cause) => {
    throw new HindsearchError(
      "IO",
      `${folder} is no run folder of the command line: ${CONFIGURATION_FILE}, which train writes, is not in it. Name a ` +
        "run folder, or a configuration and with --model the folder of a model.",
      { cause },
    );
  });
}

/** All of these read every file, as a resume does: damaged weights would give other scores without a word. */
async function find(store: CheckpointStore, checkpoint: string): Promise<CheckpointFolder | undefined> {
  if (checkpoint === "latest") return store.latest();
  if (checkpoint === "best") return store.best();
  return /^\d{1,15}$/.test(checkpoint) ? store.at(Number(checkpoint)) : undefined;
}

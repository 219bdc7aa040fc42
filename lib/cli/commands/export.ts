import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { openPolicy } from "../../config/open-policy.js";
import { HindsearchError } from "../../errors.js";
import { makeFolder } from "../../make-folder.js";
import type { StorageType } from "../../native/model.js";
import { io } from "../../runs/io.js";
import { type CommandContext, onRun, withSet } from "../context.js";
import type { OutputStreams } from "../output.js";
import { readTarget, type TargetOptions } from "../run-folder.js";

interface ExportOptions extends TargetOptions {
  output: string;
  dtype?: StorageType;
}

/** In a folder while an export writes to it; what a killed one left is written over by the next. */
const UNFINISHED = "export.partial";

/** `hindsearch export`. */
export function exportCommand(program: Command, streams: OutputStreams): void {
  const command = withSet(program.command("export"))
    .description("write a trained model as a folder that transformers and vLLM load")
    .argument("<run>", "a run folder, whose latest checkpoint is written; or a configuration")
    .requiredOption("-o, --output <folder>", "where it goes; a folder that is empty or missing")
    .option("--checkpoint <steps>", "the checkpoint after so many steps, latest, best, or initial")
    .option("--model <folder>", "a model folder instead, e.g. to change its type")
    .addOption(
      new Option("--dtype <type>", "what weights are stored as; default: as the initial model").choices([
        "f32",
        "bf16",
        "f16",
      ]),
    );
  onRun(command, streams, exportModel);
}

async function exportModel(context: CommandContext, options: ExportOptions, path: string): Promise<void> {
  const { output, interrupt } = context;
  const { configuration, model, step } = await readTarget(context, path, options);
  await makeRoom(options.output);
  using policy = await openPolicy(configuration, {
    folder: model,
    // Nothing is computed, and what was trained on a GPU is to be written without one too.
    device: "cpu",
    signal: interrupt.stop,
  });
  const { dtype } = options;
  const unfinished = join(options.output, UNFINISHED);
  await io(`write ${unfinished}`, () => writeFile(unfinished, ""));
  await policy.save(options.output, { signal: interrupt.stop, ...(dtype && { dtype }) });
  await rm(unfinished);
  output.line(
    `${step === undefined ? "The model" : `The model after ${step} training steps`} is in ${options.output}.`,
  );
  output.event("export", { folder: options.output, step: step ?? null });
}

/**
 * Makes the folder. What is in one is not written over, but for what an export left that did not come to its end: of that,
 * half-written files have names that no other export writes over.
 */
async function makeRoom(folder: string): Promise<void> {
  const names = await io(`write to ${folder}`, async () => {
    await makeFolder(folder);
    const found = await readdir(folder);
    if (!found.includes(UNFINISHED)) return found;
    for (const name of found) if (name.endsWith(".partial")) await rm(join(folder, name));
    return [];
  });
  if (names.length === 0) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${folder} is not empty; choose another folder, or empty it.`,
  );
}

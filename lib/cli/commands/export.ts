import { mkdir, readdir } from "node:fs/promises";
import { type Command, Option } from "commander";
import { openPolicy } from "../../config/open-policy.js";
import { HindsearchError } from "../../errors.js";
import type { StorageType } from "../../native/model.js";
import { type CommandContext, onRun, withSet } from "../context.js";
import type { OutputStreams } from "../output.js";
import { readTarget, type TargetOptions } from "../run-folder.js";

interface ExportOptions extends TargetOptions {
  output: string;
  dtype?: StorageType;
}

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
  await requireEmpty(options.output);
  using policy = await openPolicy(configuration, { folder: model, signal: interrupt.stop });
  const { dtype } = options;
  await policy.save(options.output, { signal: interrupt.stop, ...(dtype && { dtype }) });
  output.line(
    `${step === undefined ? "The model" : `The model after ${step} training steps`} is in ${options.output}.`,
  );
  output.event("export", { folder: options.output, step: step ?? null });
}

/** What is in a folder is not written over. */
async function requireEmpty(folder: string): Promise<void> {
  let names: string[];
  try {
    await mkdir(folder, { recursive: true });
    names = await readdir(folder);
  } catch (cause) {
    throw new HindsearchError("IO", `Cannot write to ${folder}: ${(cause as Error).message}.`, { cause });
  }
  if (names.length === 0) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${folder} is not empty; choose another folder, or empty it.`,
  );
}

import { join } from "node:path";
import type { Command } from "commander";
import { configurationSections } from "../../config/documentation.js";
import { OpenTraining } from "../../config/open-training.js";
import type { ReadConfiguration } from "../../config/read.js";
import { HindsearchError } from "../../errors.js";
import { writeFileDurably } from "../../runs/durable.js";
import { io } from "../../runs/io.js";
import { RunDirectory } from "../../runs/run.js";
import { type CommandContext, type ConfigurationOptions, onRun, readFor, withModel } from "../context.js";
import type { OutputStreams } from "../output.js";
import { CONFIGURATION_FILE } from "../run-folder.js";
import { TrainingReport } from "../training-report.js";

interface TrainOptions extends ConfigurationOptions {
  resume?: boolean;
  replay?: boolean;
  otherSettings?: boolean;
}

/** `hindsearch train`. */
export function trainCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("train"))
    .description("train a model as a configuration says")
    .argument("<configuration>", "a YAML file; docs/configuration.md lists its keys")
    .option("--resume", "go on with the run in the run folder from its latest checkpoint")
    .option(
      "--replay",
      "answer judge and searches from the records of replay.folder alone: no network, no bill",
    )
    .option(
      "--other-settings",
      "with --resume: go on although settings that change what is computed are others",
    )
    .addHelpText("after", () => `\nKeys of a configuration:\n${topKeys()}`)
    .addHelpText(
      "after",
      "\nCtrl-C finishes the step and saves a checkpoint; a second one stops at once, with the last checkpoint intact.",
    );
  onRun(command, streams, train, {
    finishes: (output) =>
      output.note("The step is finished and a checkpoint saved; Ctrl-C once more stops at once."),
  });
}

/** From the schema. */
function topKeys(): string {
  const [top] = configurationSections();
  const rows = (top?.rows ?? []).map(
    ({ key, text, required }) => `  ${key.padEnd(12)} ${text}${required ? " Required." : ""}`,
  );
  return [...rows, "  `hindsearch config KEY` lists what is in one of them."].join("\n");
}

async function train(
  context: CommandContext,
  { resume = false, replay = false, otherSettings = false, set, ...options }: TrainOptions,
  file: string,
): Promise<void> {
  const { output, interrupt } = context;
  const configuration = await readFor(context, file, {
    ...options,
    set: replay ? [...set, "replay.mode=replay"] : set,
  });
  const runFolder = configuration.resolve(configuration.values.run.folder);
  // Said before a model is loaded for nothing.
  if (!resume && (await RunDirectory.exists(runFolder))) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${runFolder} holds a run already. Go on with it by --resume, or choose another folder by --set run.folder=...`,
    );
  }
  const report = new TrainingReport(output, configuration.values.training.steps);
  let recorded: Promise<void> | undefined;
  await using training = await OpenTraining.open(configuration, {
    resume: resume && otherSettings ? "with-other-settings" : resume,
    finish: interrupt.finish,
    signal: interrupt.stop,
    onProgress: (progress) => {
      // By now the run folder is this process's own.
      recorded ??= record(configuration, runFolder).catch((error: Error) => output.warn(error.message));
      report.progress(progress);
    },
    onWarning: (warning) => output.warn(warning),
  });
  const { trainer } = training;
  output.line(trainer.plan());
  output.event("start", { settings: trainer.settings, runFolder });
  let stepsDone = 0;
  for await (const result of trainer) {
    report.step(result);
    stepsDone = result.step + 1;
  }
  await recorded;
  report.end(runFolder, stepsDone === trainer.settings.steps || !interrupt.finish.aborted);
}

/** What `hindsearch eval` and others read a run by. They can be told a configuration, so a training goes on without. */
function record(configuration: ReadConfiguration, runFolder: string): Promise<void> {
  const text = `# What this run was started with, defaults filled in. Secrets are references to variables, or left out.\n`;
  const file = join(runFolder, CONFIGURATION_FILE);
  return io(`write ${file}`, () => writeFileDurably(file, text + configuration.record()));
}

import type { Command } from "commander";
import { estimateConfiguration, memoryRooms } from "../../config/estimate.js";
import { measureSteps, type ProbeResult } from "../../config/probe.js";
import type { ReadConfiguration } from "../../config/read.js";
import { formatBytes, formatEstimate } from "../../policy/memory/report.js";
import { type CommandContext, type ConfigurationOptions, onRun, readFor, withModel } from "../context.js";
import { wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";
import { duration, rate } from "../text.js";

interface EstimateOptions extends ConfigurationOptions {
  probe?: number | true;
}

/** `hindsearch estimate`. */
export function estimateCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("estimate"))
    .description("say what a training will need: memory by phase, and time if it may try")
    .argument("<configuration>", "a YAML file")
    .option(
      "--probe [questions]",
      "train two steps of so many questions, without judge and run folder, and reckon the time from the second; default 2",
      wholeNumber(1),
    );
  onRun(command, streams, estimate);
}

async function estimate(context: CommandContext, options: EstimateOptions, file: string): Promise<void> {
  const { output, interrupt } = context;
  const configuration = await readFor(context, file, options);
  const memory = await estimateConfiguration(configuration);
  output.line(formatEstimate(memory));
  const rooms = await memoryRooms(memory);
  for (const { name, available, fits, reason } of rooms) {
    const verdict = fits ? "It fits." : "It does not fit: docs/memory.md says what to change.";
    output.line(available === null ? `${name}: ${reason}` : `${name}: ${formatBytes(available)}. ${verdict}`);
  }
  const available = rooms[0]?.available ?? null;
  output.event("memory", { ...memory, available, fits: rooms.every(({ fits }) => fits) });
  if (options.probe === undefined) return;
  const questions = options.probe === true ? 2 : options.probe;
  const probe = await measureSteps(configuration, questions, {
    signal: interrupt.stop,
    onProgress: ({ step, phase, done, total }) =>
      output.progress(
        () => `probe, step ${step + 1} of 2, ${phase} ${done} of ${total}`,
        () => ({ step, phase, done, total }),
      ),
  });
  showTime(context, configuration, probe);
}

function showTime({ output }: CommandContext, { values }: ReadConfiguration, probe: ProbeResult): void {
  const { trajectories, milliseconds, tokens, step, evaluation, evaluations, training } = probe;
  output.line();
  output.line(
    `Measured on ${trajectories} trajectories of ${tokens} tokens: rollout ${duration(milliseconds.rollout)} ` +
      `(${rate(trajectories, milliseconds.rollout)} trajectories/s), reference ${duration(milliseconds.judgeAndReference)}, ` +
      `update ${duration(milliseconds.update)}.`,
  );
  output.line(
    `A step of ${values.training.questionsPerStep * values.training.groupSize} trajectories: about ${duration(step)}, judge not counted.`,
  );
  if (evaluations > 0) output.line(`An evaluation: about ${duration(evaluation)}; there are ${evaluations}.`);
  output.line(`The training of ${values.training.steps} steps: about ${duration(training)}.`);
  output.line(
    "Few trajectories decode less efficiently together than many, and trajectories grow or shrink in training.",
  );
  output.event("time", probe);
}

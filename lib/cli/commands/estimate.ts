import type { Command } from "commander";
import { estimateConfiguration } from "../../config/estimate.js";
import { measureSteps, type ProbeResult } from "../../config/probe.js";
import type { ReadConfiguration } from "../../config/read.js";
import { availableMemory } from "../../policy/available-memory.js";
import { engine } from "../../policy/engine.js";
import { formatBytes, formatEstimate, type MemoryEstimate } from "../../policy/memory-report.js";
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
  const rooms = await roomsOf(memory);
  for (const { name, available, fits } of rooms) {
    const verdict = fits ? "It fits." : "It does not fit: docs/memory.md says what to change.";
    output.line(typeof available === "string" ? available : `${name}: ${formatBytes(available)}. ${verdict}`);
  }
  const [first] = rooms;
  const available = typeof first?.available === "number" ? first.available : null;
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

/** A memory that the training needs, and whether it suffices. */
interface RoomFound {
  name: string;
  /** Bytes, or why nothing can be said. */
  available: number | string;
  fits: boolean;
}

/** CUDA is awake when it is asked what is free, and has what it takes itself. */
function gpuNeed({ peak, phases }: MemoryEstimate): number {
  return peak.bytes - (phases[peak.phase]?.parts.runtime ?? 0);
}

async function roomsOf(memory: MemoryEstimate): Promise<RoomFound[]> {
  const { settings, peak, phases } = memory;
  const machine = (bytes: number) => {
    const available = availableMemory();
    return { name: "Available", available, fits: bytes <= available };
  };
  if (settings.device === "cpu") return [machine(peak.bytes)];
  const host = machine(Math.max(...Object.values(phases).map((phase) => phase.host?.bytes ?? 0)));
  return [await gpu(gpuNeed(memory)), host];
}

async function gpu(bytes: number): Promise<RoomFound> {
  const name = "Free on the GPU";
  const found = await engine.device("cuda").catch((error: Error) => error);
  if (found instanceof Error)
    return { name, available: `No GPU to compare with. ${found.message}`, fits: false };
  const { available, reason, description, freeBytes } = found;
  if (!available) return { name, available: `No GPU to compare with. ${reason}`, fits: false };
  return { name: `${name} (${description})`, available: freeBytes, fits: bytes <= freeBytes };
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

import { type Command, Option } from "commander";
import { type ReadConfiguration, readConfiguration } from "../config/read.js";
import { DEVICES } from "../policy/device.js";
import type { Device } from "../policy/policy-options.js";
import { Interrupt } from "./interrupt.js";
import { Output, type OutputStreams } from "./output.js";

/** What every command works with. */
export interface CommandContext {
  /** Where it says things. */
  output: Output;
  /** Ctrl-C. */
  interrupt: Interrupt;
}

/** Options of every command that reads a configuration. */
export interface ConfigurationOptions {
  /** Values on top of the file's. */
  set: string[];
  /** In place of `model.device`. */
  device?: Device;
}

/** Adds `--set` to a command. */
export function withSet(command: Command): Command {
  return command.option(
    "--set <key=value>",
    "set a value of the configuration, e.g. training.steps=100; may be repeated",
    (value: string, before: string[]) => [...before, value],
    [],
  );
}

/** Adds `--set` and `--device` to a command that computes with the model. */
export function withModel(command: Command): Command {
  const device = new Option("--device <name>", "what computes; short for --set model.device=<name>");
  return withSet(command).addOption(device.choices(DEVICES));
}

/** Reads the configuration of a command, and keeps the values of its variables out of what is said. */
export async function readFor(
  { output }: CommandContext,
  file: string,
  { set, device }: ConfigurationOptions,
): Promise<ReadConfiguration> {
  const configuration = await readConfiguration(file, {
    set: device === undefined ? set : [...set, `model.device=${device}`],
  });
  output.hide(configuration.secrets);
  return configuration;
}

/** Gives a command its body, and the body its output and its Ctrl-C. */
export function onRun<Arguments extends unknown[], Options>(
  command: Command,
  streams: OutputStreams,
  body: (context: CommandContext, options: Options, ...parameters: Arguments) => Promise<void>,
  { finishes }: { finishes?: (output: Output) => void } = {},
): void {
  command.action(async (...given: unknown[]) => {
    const self = given.at(-1) as Command;
    const options = self.optsWithGlobals() as Options & { json?: boolean };
    const output = new Output(options.json === true, streams);
    using interrupt = new Interrupt(finishes && (() => finishes(output)));
    try {
      await body({ output, interrupt }, options, ...(given.slice(0, -2) as Arguments));
    } catch (error) {
      throw new CommandFailure(error, output, interrupt.code);
    }
    output.endProgress();
    if (interrupt.code !== undefined) throw new CommandFailure(undefined, output, interrupt.code);
  });
}

/** Another process said what was wrong, and ended with this code. */
export class CommandExit extends Error {
  constructor(
    /** The exit code. */
    readonly code: number,
  ) {
    super(`a process ended with code ${code}`);
  }
}

/** A command that did not come to its end. */
export class CommandFailure extends Error {
  constructor(
    /** What it threw; `undefined` if it ended as it was asked to. */
    readonly reason: unknown,
    /** Where to say so. */
    readonly output: Output,
    /** The exit code, if it was interrupted. */
    readonly code: number | undefined,
  ) {
    super("the command failed");
  }
}

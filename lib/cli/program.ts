import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import { HindsearchError } from "../errors.js";
import { chatCommand } from "./commands/chat.js";
import { configCommand } from "./commands/config.js";
import { demoCommand } from "./commands/demo.js";
import { doctorCommand } from "./commands/doctor.js";
import { estimateCommand } from "./commands/estimate.js";
import { evalCommand } from "./commands/eval.js";
import { exportCommand } from "./commands/export.js";
import { indexCommand } from "./commands/index-corpus.js";
import { initCommand } from "./commands/init.js";
import { inspectCommand } from "./commands/inspect.js";
import { searchCommand } from "./commands/search.js";
import { serveCommand } from "./commands/serve.js";
import { trainCommand } from "./commands/train.js";
import { CommandExit, CommandFailure } from "./context.js";
import { EXIT, exitCodeOf } from "./exit-codes.js";
import { type OutputStreams, PROCESS_STREAMS } from "./output.js";

/** Each adds one command. */
const COMMANDS: readonly ((program: Command, streams: OutputStreams) => void)[] = [
  trainCommand,
  evalCommand,
  indexCommand,
  searchCommand,
  chatCommand,
  exportCommand,
  serveCommand,
  estimateCommand,
  doctorCommand,
  initCommand,
  inspectCommand,
  configCommand,
  demoCommand,
];

/** The command line with all its commands. */
export function createProgram(streams: OutputStreams = PROCESS_STREAMS): Command {
  const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };
  const program = new Command("hindsearch")
    .description("Train a language model that searches, and use it.")
    .version(version)
    .option("--json", "one JSON object per line instead of text")
    .showHelpAfterError("(--help says what there is)")
    .configureOutput({
      writeOut: (text) => streams.out.write(text),
      writeErr: (text) => streams.errors.write(text),
    })
    .exitOverride();
  for (const add of COMMANDS) add(program, streams);
  return program;
}

/**
 * Runs a command line.
 *
 * @param words - Without the names of Node and the program.
 * @param streams - Where it says things.
 * @returns The exit code.
 */
export async function runCommandLine(
  words: readonly string[],
  streams: OutputStreams = PROCESS_STREAMS,
): Promise<number> {
  const program = createProgram(streams);
  try {
    await program.parseAsync(words, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT.ok;
      // Commander has told the standard error already.
      if (words.includes("--json")) usageEvent(streams, error.message);
      return EXIT.usage;
    }
    if (!(error instanceof CommandFailure)) throw error;
    return report(error);
  }
}

/** What a reader of `--json` hears of a wrong command line: no command, and so no output of one, came to be. */
function usageEvent(streams: OutputStreams, text: string): void {
  const message = text.replace(/^error: /, "");
  streams.out.write(`${JSON.stringify({ event: "error", code: "INVALID_ARGUMENT", message })}\n`);
}

function report({ reason, output, code }: CommandFailure): number {
  output.endProgress();
  if (reason instanceof CommandExit) return reason.code;
  // An interrupt explains that the command was aborted, and no other error: a last checkpoint may not have been written.
  if (code !== undefined && (reason === undefined || isAbort(reason))) {
    output.note("Stopped.");
    output.event("stopped", { exitCode: code });
    return code;
  }
  if (reason instanceof HindsearchError) output.error(reason.code, reason.message);
  else
    output.error("UNEXPECTED", reason instanceof Error ? (reason.stack ?? reason.message) : String(reason));
  return exitCodeOf(reason);
}

function isAbort(reason: unknown): boolean {
  return (
    reason instanceof Error &&
    (reason.name === "AbortError" || ("code" in reason && reason.code === "ABORTED"))
  );
}

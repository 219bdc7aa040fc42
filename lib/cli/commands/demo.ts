import { spawn } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { HindsearchError } from "../../errors.js";
import { type CommandContext, CommandExit, onRun } from "../context.js";
import { EXIT } from "../exit-codes.js";
import { wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";

/** Options of the demo, as it names them. */
type DemoOptions = Partial<
  Record<"seed" | "steps" | "weight" | "runs" | "judgeUrl" | "judgeModel", string | number>
>;

/** `hindsearch demo`. */
export function demoCommand(program: Command, streams: OutputStreams): void {
  const command = program
    .command("demo")
    .description(
      "train a small model in a generated world by GRPO and by HindSearch, side by side; takes minutes",
    )
    .option("--seed <number>", "of both runs", wholeNumber(0))
    .option("--steps <number>", "training steps", wholeNumber(1))
    .option("--weight <number>", "of the distillation term")
    .option("--runs <folder>", "where the warm start and the runs go")
    .option(
      "--judge-url <address>",
      "a real judge instead of the scripted one; its key is read from HINDSEARCH_JUDGE_API_KEY",
    )
    .option("--judge-model <name>", "its model");
  onRun(command, streams, demo);
}

/** The demo is an example of the package; it runs in a process of its own. */
async function demo({ output, interrupt }: CommandContext, options: DemoOptions): Promise<void> {
  if (output.json) {
    throw new HindsearchError("INVALID_ARGUMENT", "The demo speaks to people alone: leave --json out.");
  }
  const { seed, steps, weight, runs, judgeUrl, judgeModel } = options;
  const named = { seed, steps, weight, runs, "judge-url": judgeUrl, "judge-model": judgeModel };
  const words = Object.entries(named).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  );
  const child = spawn(process.execPath, [...process.execArgv, script(), ...words], { stdio: "inherit" });
  // A terminal sends Ctrl-C to both; a signal to this process alone is passed on.
  const pass = () => child.kill("SIGTERM");
  interrupt.stop.addEventListener("abort", pass);
  const code = await new Promise<number>((done, failed) => {
    child.on("error", failed);
    child.on("close", (exit) => done(exit ?? EXIT.failure));
  });
  if (code !== EXIT.ok) throw new CommandExit(code);
}

/** Beside the sources as they are; in the package compiled, within `dist`. */
function script(): string {
  const extension = extname(fileURLToPath(import.meta.url));
  const place = extension === ".ts" ? "../../../examples/demo" : "../../examples/demo";
  return fileURLToPath(new URL(`${place}${extension}`, import.meta.url));
}

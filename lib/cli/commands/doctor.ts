import type { Command } from "commander";
import { Held } from "../../config/held.js";
import { type CheckResult, runChecks } from "../../doctor/check.js";
import { machineChecks } from "../../doctor/machine.js";
import { setupChecks } from "../../doctor/setup.js";
import { HindsearchError } from "../../errors.js";
import { redactText } from "../../network/secrets.js";
import { type CommandContext, type ConfigurationOptions, onRun, readFor, withModel } from "../context.js";
import type { OutputStreams } from "../output.js";
import { oneLine } from "../text.js";

/** `hindsearch doctor`. */
export function doctorCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("doctor"))
    .description(
      "check the machine, the engine's numbers, and what a configuration needs; fit for a bug report",
    )
    .argument(
      "[configuration]",
      "a YAML file: its model, questions, retriever, judge and run folder are tried too",
    )
    .addHelpText(
      "after",
      "\nA judge is asked for one critique, which may cost something. The report holds no secrets.",
    );
  onRun(command, streams, examine);
}

async function examine(context: CommandContext, options: ConfigurationOptions, file?: string): Promise<void> {
  const { output, interrupt } = context;
  const held = new Held();
  try {
    const show = (result: CheckResult) => {
      const { name, status, milliseconds } = result;
      const detail = redactText(oneLine(result.detail));
      output.line(`${status.padEnd(8)} ${name}: ${detail}`);
      output.event("check", { ...result, detail, milliseconds: Math.round(milliseconds) });
    };
    const results = await runChecks(machineChecks(), show);
    if (file !== undefined) {
      const configuration = await readFor(context, file, options);
      results.push(...(await runChecks(setupChecks(configuration, held, { signal: interrupt.stop }), show)));
    }
    const failed = results.filter(({ status }) => status === "failed");
    const [first] = failed;
    if (first === undefined) {
      output.line("Nothing is wrong.");
      return;
    }
    throw new HindsearchError(
      first.code ?? "INTERNAL",
      `${failed.length} of ${results.length} checks failed: ${failed.map(({ name }) => name).join(", ")}.`,
    );
  } finally {
    await held.release();
  }
}

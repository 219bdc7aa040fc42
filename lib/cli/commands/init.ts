import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { STARTER_SCRIPT, starterConfiguration } from "../../config/starter.js";
import { HindsearchError } from "../../errors.js";
import { makeFolder } from "../../make-folder.js";
import { type CommandContext, onRun } from "../context.js";
import type { OutputStreams } from "../output.js";

/** `hindsearch init`. */
export function initCommand(program: Command, streams: OutputStreams): void {
  const command = program
    .command("init")
    .description("write a commented configuration and a first script into a project")
    .argument("[folder]", "where; what is there is never written over", ".");
  onRun(command, streams, init);
}

async function init({ output }: CommandContext, _options: object, folder: string): Promise<void> {
  const files = { "hindsearch.yaml": starterConfiguration(), "ask.mjs": STARTER_SCRIPT };
  const written: string[] = [];
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    try {
      await makeFolder(folder);
      // Fails where there is one.
      await writeFile(file, text, { flag: "wx" });
    } catch (cause) {
      throw new HindsearchError("IO", refusal(file, cause as NodeJS.ErrnoException, written), { cause });
    }
    written.push(file);
    output.line(`wrote ${file}`);
    output.event("wrote", { file });
  }
  output.line(
    `Next: put your model, questions and corpus into ${join(folder, "hindsearch.yaml")}, then npx hindsearch doctor hindsearch.yaml`,
  );
}

function refusal(file: string, { code, message }: NodeJS.ErrnoException, written: readonly string[]): string {
  const before = written.length === 0 ? "" : ` Written before: ${written.join(", ")}.`;
  if (code === "EEXIST")
    return `${file} is there already and is not written over; move it away first.${before}`;
  return `Cannot write ${file}: ${message}.${before}`;
}

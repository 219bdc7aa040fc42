import type { Command } from "commander";
import { configurationJsonSchema, configurationSections } from "../../config/documentation.js";
import { nearestWord } from "../../config/nearest.js";
import { HindsearchError } from "../../errors.js";
import { type CommandContext, onRun } from "../context.js";
import type { OutputStreams } from "../output.js";

/** `hindsearch config`. */
export function configCommand(program: Command, streams: OutputStreams): void {
  const command = program
    .command("config")
    .description("list the keys of a configuration with their defaults")
    .argument("[key]", "a part of it, e.g. training.distillation")
    .option("--schema", "print a JSON Schema for editors instead");
  onRun(command, streams, list);
}

async function list(
  { output }: CommandContext,
  { schema }: { schema?: boolean },
  key?: string,
): Promise<void> {
  if (schema) {
    output.raw(JSON.stringify(configurationJsonSchema(), null, 2));
    return;
  }
  const sections = configurationSections();
  const inside = (name: string) => key === undefined || name === key || name.startsWith(`${key}.`);
  const chosen = key === undefined ? sections.slice(0, 1) : sections.slice(1);
  let shown = 0;
  for (const { title, text, rows } of chosen) {
    const wanted = rows.filter((row) => inside(row.key));
    if (wanted.length === 0) continue;
    output.line(
      title === ""
        ? "The keys of a configuration; `hindsearch config KEY` lists what is in one:"
        : `${title}: ${text}`,
    );
    for (const row of wanted) {
      const preset = row.required
        ? "required"
        : row.default === undefined
          ? ""
          : `default ${JSON.stringify(row.default)}`;
      output.line(`  ${row.key}: ${row.expected}${preset && ` (${preset})`}`);
      output.line(`      ${row.text}`);
      output.event("key", { section: title, ...row });
      shown++;
    }
  }
  if (shown > 0) return;
  const all = sections.flatMap(({ rows }) => rows.map((row) => row.key));
  const nearest = nearestWord(key as string, all);
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `A configuration has no key ${key}.${nearest === undefined ? "" : ` Did you mean ${nearest}?`}`,
  );
}

/**
 * Prints the results of a run as Markdown, for docs/performance.md.
 *
 *     npx tsx bench/markdown.ts build/bench/results.json
 */
import { readFile } from "node:fs/promises";
import { markdownTable, type Report, settingLine } from "./report.js";

for (const path of process.argv.slice(2)) {
  const { setting, figures } = JSON.parse(await readFile(path, "utf8")) as Report;
  console.log(`${settingLine(setting)}.\n\n${markdownTable(figures)}\n`);
}

import { type Command, Option } from "commander";
import { OpenRetriever, type ResolvePath } from "../../config/open-retriever.js";
import { Retriever, type RetrieverConfig } from "../../config/schema/retriever.js";
import { HindsearchError } from "../../errors.js";
import type { Passage } from "../../retrieval/passage.js";
import { type CommandContext, onRun, readFor, withSet } from "../context.js";
import { oneText, wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";
import { duration, oneLine } from "../text.js";

interface SearchOptions {
  set: string[];
  config?: string;
  index?: string;
  corpus?: string[];
  url?: string;
  dialect: "search-r1" | "flashrag";
  top: number;
}

/** Characters of a passage that are shown. */
const SHOWN = 300;

/** `hindsearch search`. */
export function searchCommand(program: Command, streams: OutputStreams): void {
  const command = withSet(program.command("search"))
    .description("try a retriever")
    .argument("<query...>", "what to search for; several words are one query")
    .option("--config <file>", "the retriever of a configuration")
    .option("--index <folder>", "an index that hindsearch index built")
    .option("--corpus <path...>", "a corpus, searched in memory")
    .option("--url <address>", "a search service")
    .addOption(
      new Option("--dialect <name>", "what the service speaks")
        .choices(["search-r1", "flashrag"])
        .default("search-r1"),
    )
    .option("--top <number>", "passages per query", wholeNumber(1), 3);
  onRun(command, streams, search);
}

async function search(context: CommandContext, options: SearchOptions, words: string[]): Promise<void> {
  const { output, interrupt } = context;
  const query = oneText(words);
  const { config, resolve } = await retrieverOf(context, options);
  const opened = await OpenRetriever.open(config, resolve, { signal: interrupt.stop });
  try {
    const started = performance.now();
    const [passages = []] = await opened.retriever.search([query], options.top, { signal: interrupt.stop });
    const milliseconds = performance.now() - started;
    show(context, query, passages);
    output.note(`${duration(milliseconds)}`);
  } finally {
    await opened[Symbol.asyncDispose]();
  }
}

/** Of the one place that was named. */
async function retrieverOf(
  context: CommandContext,
  { config, index, corpus, url, dialect, set }: SearchOptions,
): Promise<{ config: RetrieverConfig; resolve: ResolvePath }> {
  const named = Object.entries({ config, index, corpus, url }).filter(([, value]) => value !== undefined);
  if (named.length !== 1) {
    const given = named.length === 0 ? "none is given" : named.map(([name]) => `--${name}`).join(" and ");
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Say what to search by one of --config, --index, --corpus and --url; ${given}.`,
    );
  }
  if (config !== undefined) {
    const configuration = await readFor(context, config, { set });
    configuration.requireVariables("retriever");
    return { config: configuration.values.retriever, resolve: (path) => configuration.resolve(path) };
  }
  const short =
    index !== undefined
      ? { kind: "index", folder: index }
      : corpus !== undefined
        ? { kind: "memory", corpus }
        : { kind: "http", url, dialect };
  const checked = Retriever.safeParse(short);
  if (checked.success) return { config: checked.data, resolve: (path) => path };
  // Without the value, which may hold a password.
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `--${named[0]?.[0]} must be ${url === undefined ? "a path" : "an http or https address without user and password"}.`,
  );
}

function show({ output }: CommandContext, query: string, passages: readonly Passage[]): void {
  output.event("search", { query, passages });
  output.line(oneLine(query));
  if (passages.length === 0) output.line("  nothing found");
  for (const [rank, { id, title, text, score }] of passages.entries()) {
    const scored = score === undefined ? "" : `  ${score.toFixed(3)}`;
    output.line(`  ${rank + 1}. ${oneLine(title, SHOWN) || "(no title)"}  [${oneLine(id, 80)}]${scored}`);
    output.line(`     ${oneLine(text, SHOWN)}`);
  }
  output.line();
}

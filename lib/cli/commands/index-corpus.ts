import { type Command, Option } from "commander";
import { closeEmbedding, openEmbedding } from "../../config/open-retriever.js";
import type { ReadConfiguration } from "../../config/read.js";
import type { RetrieverConfig } from "../../config/schema/retriever.js";
import { HindsearchError } from "../../errors.js";
import type { IndexProgress } from "../../retrieval/embedded/builder-process.js";
import { CorpusIndex } from "../../retrieval/embedded/corpus-index.js";
import type { IndexAnalyzer } from "../../retrieval/embedded/manifest.js";
import { type CommandContext, onRun, readFor } from "../context.js";
import { wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";
import { duration, rate } from "../text.js";

interface IndexOptions {
  output: string;
  analyzer: IndexAnalyzer;
  words: number;
  overlap: number;
  config?: string;
}

/** `hindsearch index`. */
export function indexCommand(program: Command, streams: OutputStreams): void {
  const command = program
    .command("index")
    .description("build the embedded search index over a corpus")
    .argument(
      "<corpus...>",
      "JSON Lines (plain or gzip) or Parquet of passages, or a folder of .txt and .md files",
    )
    .requiredOption("-o, --output <folder>", "where the index goes; a build that was interrupted goes on")
    .addOption(
      new Option("--analyzer <name>", "how words are told apart; english stems and drops frequent words")
        .choices(["plain", "english"])
        .default("plain"),
    )
    .option("--words <number>", "most words of a passage cut from a folder's files", wholeNumber(1), 100)
    .option("--overlap <number>", "words that such a passage repeats from the one before", wholeNumber(0), 0)
    .option(
      "--config <file>",
      "a configuration whose retriever is an index; its embedding makes vectors too",
    );
  onRun(command, streams, build);
}

async function build(context: CommandContext, options: IndexOptions, corpus: string[]): Promise<void> {
  const { output, interrupt } = context;
  const configuration =
    options.config === undefined ? undefined : await readFor(context, options.config, { set: [] });
  const { embedding: embeddingConfig, storageOptions } = configuration ? indexOf(configuration) : {};
  const embedding = embeddingConfig && openEmbedding(embeddingConfig);
  const started = performance.now();
  try {
    const manifest = await CorpusIndex.build(corpus, options.output, {
      analyzer: options.analyzer,
      chunks: { words: options.words, overlap: options.overlap },
      embedding,
      storageOptions,
      signal: interrupt.stop,
      onProgress: (progress) => show(context, progress, performance.now() - started),
    });
    const { passages, checksum, vectorIndex } = manifest;
    output.line(`${passages} passages in ${duration(performance.now() - started)}: ${options.output}`);
    output.line(`checksum ${checksum}`);
    if (vectorIndex)
      output.line(
        `vectors: ${vectorIndex.probes} of ${vectorIndex.partitions} partitions are searched, recall ${vectorIndex.recall.toFixed(3)}`,
      );
    output.line(`Try it: npx hindsearch search "a question" --index ${options.output}`);
    output.event("index", { folder: options.output, ...manifest });
  } finally {
    await closeEmbedding(embedding);
  }
}

function indexOf(configuration: ReadConfiguration): Extract<RetrieverConfig, { kind: "index" }> {
  configuration.requireVariables("retriever");
  const { retriever } = configuration.values;
  if (retriever.kind === "index") return retriever;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `The retriever of the configuration is of kind ${retriever.kind}; only one of kind index has an index to build.`,
  );
}

function show({ output }: CommandContext, { phase, passages }: IndexProgress, elapsed: number): void {
  output.progress(
    () => `${phase}: ${passages} passages, ${rate(passages, elapsed)}/s, ${duration(elapsed)}`,
    () => ({ phase, passages }),
  );
}

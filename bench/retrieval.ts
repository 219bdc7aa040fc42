/**
 * Builds embedded indices over synthetic passages and searches them: build time, disk, latency, processor time.
 *
 *     npx tsx bench/retrieval.ts                       200,000 and 1,000,000 passages
 *     npx tsx bench/retrieval.ts --passages 200000,5000000 --queries 500
 *     npx tsx bench/retrieval.ts --passages 200000 --exact    also how far the results are those of exact BM25
 *
 * See docs/retrieval.md for results. `--exact` holds the corpus in memory.
 */
import { createWriteStream } from "node:fs";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import { CorpusIndex, formatContents, MemoryRetriever, type Retriever } from "hindsearch";
import { runCommand, wholeNumber } from "../examples/world/command-line.js";
import { SyntheticCorpus } from "./work/synthetic-corpus.js";

/** Queries of one call in the measurement of throughput. */
const BATCH = 64;
const TOP_K = 3;

await runCommand(async (signal) => {
  const { values } = parseArgs({
    options: {
      passages: { type: "string", default: "200000,1000000" },
      queries: { type: "string", default: "1000" },
      exact: { type: "boolean", default: false },
    },
  });
  const queries = wholeNumber("queries", values.queries, BATCH);
  const sizes = values.passages.split(",").map((size) => wholeNumber("passages", size, 1));
  for (const size of sizes) {
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-bench-"));
    try {
      console.log(
        `\n${size} passages; load average ${loadavg()
          .map((load) => load.toFixed(1))
          .join(" ")}`,
      );
      await measure(new SyntheticCorpus(size), folder, queries, values.exact, signal);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
});

async function measure(
  corpus: SyntheticCorpus,
  folder: string,
  count: number,
  exact: boolean,
  signal: AbortSignal,
): Promise<void> {
  const [file, place] = [join(folder, "corpus.jsonl"), join(folder, "index")];
  await pipeline(Readable.from(lines(corpus)), createWriteStream(file), { signal });
  row("corpus", `${megabytes((await stat(file)).size)} MB of JSON Lines`);

  const start = performance.now();
  let indexing = start;
  await CorpusIndex.build(file, place, {
    signal,
    onProgress: ({ phase }) => {
      if (phase === "reading") indexing = performance.now();
    },
  });
  const end = performance.now();
  row("build", `${seconds(end - start)} s, about ${seconds(indexing - start)} of them reading and writing`);
  row("disk", `${megabytes(await sizeOf(place))} MB`);

  const opening = performance.now();
  const index = await CorpusIndex.open(place);
  row(
    "open",
    `${seconds(performance.now() - opening)} s, ${megabytes(process.memoryUsage().rss)} MB resident after it`,
  );
  const questions = Array.from({ length: count }, (_, i) => corpus.question(i));
  await search(index, questions.slice(0, 20), 1);

  const one = await search(index, questions, 1);
  one.latencies.sort((x, y) => x - y);
  const at = (q: number) => (one.latencies[Math.floor(q * (count - 1))] as number).toFixed(1);
  row(
    "one at a time",
    `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ${one.cpu.toFixed(1)} ms of processor time a query`,
  );
  const many = await search(index, questions, BATCH);
  const total = many.latencies.reduce((sum, x) => sum + x, 0);
  row(
    `${BATCH} at a time`,
    `${Math.round((1000 * count) / total)} queries/s, ${many.cpu.toFixed(1)} ms of processor time a query`,
  );
  if (exact)
    row(
      "exact BM25",
      `has ${(100 * (await overlap(index, corpus, questions))).toFixed(2)} % of the top ${TOP_K} in common`,
    );
  await index.close();
}

/** Milliseconds of each call, and of processor time for each query. */
async function search(index: Retriever, questions: readonly string[], batch: number) {
  const latencies: number[] = [];
  const before = process.cpuUsage();
  for (let start = 0; start < questions.length; start += batch) {
    const at = performance.now();
    await index.search(questions.slice(start, start + batch), TOP_K);
    latencies.push(performance.now() - at);
  }
  const { user, system } = process.cpuUsage(before);
  return { latencies, cpu: (user + system) / 1000 / questions.length };
}

/** Share of the exact top 3 that the index finds. */
async function overlap(
  index: Retriever,
  corpus: SyntheticCorpus,
  questions: readonly string[],
): Promise<number> {
  const memory = await MemoryRetriever.create(corpus, { k1: 1.2, b: 0.75 });
  const [found, expected] = [await index.search(questions, TOP_K), await memory.search(questions, TOP_K)];
  const shares = expected.map((list, i) => {
    const ids = new Set(found[i]?.map(({ id }) => id));
    return list.filter(({ id }) => ids.has(id)).length / list.length;
  });
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

function* lines(corpus: SyntheticCorpus): Generator<string> {
  for (const passage of corpus) {
    yield `${JSON.stringify({ id: passage.id, contents: formatContents(passage) })}\n`;
  }
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const sizes = await Promise.all(
    names.map(async (name) => {
      const status = await stat(join(folder, name));
      return status.isFile() ? status.size : 0;
    }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

function row(name: string, text: string): void {
  console.log(`  ${name.padEnd(16)}${text}`);
}

function seconds(milliseconds: number): string {
  return (milliseconds / 1000).toFixed(1);
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1e6);
}

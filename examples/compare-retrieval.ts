/**
 * The same questions through three engines: the embedded index, our own server through the Search-R1 client, and
 * PostgreSQL. Prints how many gold passages each finds and how long it takes.
 *
 *     npx tsx examples/compare-retrieval.ts --corpus corpus.jsonl.gz --questions hotpotqa.jsonl,musique.jsonl
 *
 * Questions are FlashRAG rows whose metadata has `supporting_ids`, the ids of the gold passages; the same number is taken
 * from each file. PostgreSQL is started here, in a temporary folder, and needs to be installed; its client is the
 * optional package `pg`.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CorpusIndex,
  HttpRetriever,
  loadQuestions,
  PostgresRetriever,
  type Question,
  type Retriever,
  readCorpus,
  serveRetriever,
} from "hindsearch";
import { loadCorpus } from "./engines/postgres-corpus.js";
import { PostgresServer } from "./engines/postgres-server.js";
import { readOptions, runCommand, UsageError, wholeNumber } from "./world/command-line.js";

/** A question with the ids of its gold passages. */
interface Test {
  text: string;
  gold: ReadonlySet<string>;
}

/** What an engine did. */
interface Row {
  engine: string;
  /** Mean share of a question's gold passages that were found. */
  recall: number;
  /** Share of questions of which all were found. */
  complete: number;
  /** Milliseconds of one search at a time, ascending. */
  latencies: number[];
  /** Milliseconds for all questions at once. */
  together: number;
}

await runCommand(async (signal) => {
  const values = readOptions({ corpus: undefined, questions: undefined, count: "50", topk: "5" });
  const { corpus, questions } = values;
  if (!corpus || !questions) throw new UsageError("Give --corpus FILE and --questions FILE,FILE,...");
  const topK = wholeNumber("topk", values.topk, 1);
  const tests = await loadTests(questions.split(","), wholeNumber("count", values.count, 1));
  const folder = await mkdtemp(join(tmpdir(), "hindsearch-compare-"));
  const cleanUp: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    const started = performance.now();
    const index = join(folder, "index");
    await CorpusIndex.build(corpus, index, { signal });
    const embedded = await CorpusIndex.open(index);
    cleanUp.push(() => embedded.close());
    log(`embedded index of ${embedded.manifest.passages} passages`, started);

    const server = await serveRetriever(embedded, { port: 0, signal });
    cleanUp.push(() => server.close());
    const client = new HttpRetriever({ url: `${server.url}/retrieve`, batchWindowMs: 0 });
    cleanUp.push(() => client.close());

    const loading = performance.now();
    const postgres = await PostgresServer.start();
    cleanUp.push(() => postgres.close());
    await loadCorpus(postgres.address, readCorpus(corpus, { signal }), signal);
    log("PostgreSQL started and loaded", loading);
    const table = new PostgresRetriever({ connection: postgres.address, batchWindowMs: 0 });
    cleanUp.push(() => table.close());

    const rows = [
      await measure("embedded index", embedded, tests, topK, signal),
      await measure("Search-R1 server", client, tests, topK, signal),
      await measure("PostgreSQL", table, tests, topK, signal),
    ];
    print(rows, tests.length, topK);
  } finally {
    for (const step of cleanUp.reverse()) await step();
  }
});

async function loadTests(files: readonly string[], count: number): Promise<Test[]> {
  const sets: Test[][] = [];
  for (const file of files) sets.push((await loadQuestions(file)).flatMap(testOf));
  const tests: Test[] = [];
  for (let i = 0; tests.length < count; i++) {
    const round = sets.flatMap((set) => set.slice(i, i + 1));
    if (round.length === 0) {
      throw new UsageError(`Only ${tests.length} questions have supporting_ids; --count asks for ${count}.`);
    }
    tests.push(...round.slice(0, count - tests.length));
  }
  return tests;
}

function testOf({ question, metadata }: Question): Test[] {
  const ids = metadata?.supporting_ids;
  return Array.isArray(ids) && ids.length > 0 ? [{ text: question, gold: new Set(ids.map(String)) }] : [];
}

async function measure(
  engine: string,
  retriever: Retriever,
  tests: readonly Test[],
  topK: number,
  signal: AbortSignal,
): Promise<Row> {
  const queries = tests.map(({ text }) => text);
  // The first round opens connections and fills caches.
  for (const query of queries) await retriever.search([query], topK, { signal });
  const latencies: number[] = [];
  let [recall, complete] = [0, 0];
  for (const { text, gold } of tests) {
    const start = performance.now();
    const [found = []] = await retriever.search([text], topK, { signal });
    latencies.push(performance.now() - start);
    const hits = found.filter(({ id }) => gold.has(id)).length;
    recall += hits / gold.size / tests.length;
    complete += Number(hits === gold.size) / tests.length;
  }
  const start = performance.now();
  await retriever.search(queries, topK, { signal });
  const together = performance.now() - start;
  return { engine, recall, complete, latencies: latencies.sort((x, y) => x - y), together };
}

function print(rows: readonly Row[], questions: number, topK: number): void {
  console.log(`\n${questions} questions, gold passages among the first ${topK}\n`);
  const heads = ["engine", "recall", "all found", "p50 ms", "p90 ms", "max ms", "all at once ms"];
  const cells = rows.map(({ engine, recall, complete, latencies, together }) => {
    const at = (q: number) => (latencies[Math.ceil(q * latencies.length) - 1] ?? 0).toFixed(1);
    return [engine, recall.toFixed(3), complete.toFixed(2), at(0.5), at(0.9), at(1), together.toFixed(0)];
  });
  const widths = heads.map((head, i) => Math.max(head.length, ...cells.map((row) => (row[i] ?? "").length)));
  for (const row of [heads, ...cells]) {
    const padded = row.map((cell, i) =>
      i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0),
    );
    console.log(padded.join("   "));
  }
}

function log(what: string, since: number): void {
  console.log(`${((performance.now() - since) / 1000).toFixed(1).padStart(6)} s  ${what}`);
}

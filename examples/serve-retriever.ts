/**
 * Serves a corpus or an index to other trainers, over Search-R1's `POST /retrieve` and FlashRAG's `POST /batch_search`.
 *
 *     npx tsx examples/serve-retriever.ts --index wiki-index
 *     npx tsx examples/serve-retriever.ts --corpus corpus.jsonl.gz --port 8000
 *     HINDSEARCH_SERVER_TOKEN=... npx tsx examples/serve-retriever.ts --index wiki-index --host 0.0.0.0
 *
 * A corpus is held in memory; an index is what `CorpusIndex.build` made. Ctrl-C finishes the requests at work first.
 */
import { once } from "node:events";
import { CorpusIndex, MemoryRetriever, type Retriever, readCorpus, serveRetriever } from "hindsearch";
import { readOptions, runCommand, UsageError, wholeNumber } from "./world/command-line.js";

await runCommand(async (signal) => {
  const values = readOptions({
    index: undefined,
    corpus: undefined,
    host: "127.0.0.1",
    port: "8000",
    topk: "3",
  });
  const port = wholeNumber("port", values.port, 0);
  const defaultTopK = wholeNumber("topk", values.topk, 1);
  const retriever = await open(values.index, values.corpus, signal);
  const onError = (error: unknown) => console.error(error instanceof Error ? error.message : error);
  const server = await serveRetriever(retriever, { host: values.host, port, defaultTopK, onError });
  console.log(`Serving at ${server.url}/retrieve`);
  if (!signal.aborted) await once(signal, "abort");
  await server.close();
  await retriever.close?.();
  console.log(JSON.stringify(server.stats()));
});

async function open(
  index: string | undefined,
  corpus: string | undefined,
  signal: AbortSignal,
): Promise<Retriever> {
  if (index !== undefined && corpus === undefined) return CorpusIndex.open(index);
  if (corpus !== undefined && index === undefined) {
    return MemoryRetriever.create(readCorpus(corpus, { signal }), { signal });
  }
  throw new UsageError("Give either --index or --corpus.");
}

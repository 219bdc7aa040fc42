import { readdir } from "node:fs/promises";
import { resolve } from "node:path";
import { abortedError, throwIfAborted } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { makeFolder } from "../../make-folder.js";
import { type CorpusSource, isPaths } from "../checksum.js";
import { checkVectors, type EmbeddingModel } from "../embedding/embedding-model.js";
import type { CorpusOptions } from "../sources/options.js";
import { type BuilderOptions, BuilderProcess } from "./builder-process.js";
import {
  embeddingNote,
  type IndexAnalyzer,
  type IndexManifest,
  type IndexSettings,
  PROBE,
} from "./manifest.js";

/** Settings of an index build. */
export interface IndexBuildOptions extends Omit<CorpusOptions, "signal">, BuilderOptions {
  /**
   * How words are told apart. `plain`: as they are, in lower case, without a stop list: frequent words cost
   * little and get little weight. `english`: Porter's stemmer and a stop list of English, as the Lucene index of
   * Search-R1 has them; for English corpora only. Default `plain`.
   */
  analyzer?: IndexAnalyzer | undefined;
  /** Adds a vector to every passage, for dense and hybrid search. Default: none. */
  embedding?: EmbeddingModel | undefined;
  /**
   * Passages from which on the vectors are indexed, which makes dense search fast and approximate; below, every vector
   * is compared. At least 256. Default 20,000.
   */
  exactBelow?: number | undefined;
  /**
   * Where an object store is and how to get in, as LanceDB names it (`region`, `endpoint`, ...); never written down.
   */
  storageOptions?: Record<string, string> | undefined;
}

/** What k-means needs to have centroids of its own. */
const LEAST_INDEXED = 256;

/** The address of an index: absolute if it is a local folder. */
export function indexAddress(folder: string): { uri: string; local: boolean } {
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(folder)?.[1]?.toLowerCase();
  if (scheme === undefined) return { uri: resolve(folder), local: true };
  if (["s3", "gs", "az"].includes(scheme)) return { uri: folder, local: false };
  const message = `${scheme}:// is no place for an index; give a folder, or an s3://, gs:// or az:// address.`;
  throw new HindsearchError("INVALID_ARGUMENT", message);
}

/** See `CorpusIndex.build`. */
export async function buildIndex(
  source: CorpusSource,
  folder: string,
  options: IndexBuildOptions,
): Promise<IndexManifest> {
  const { signal, embedding, exactBelow = 20_000, storageOptions = {} } = options;
  throwIfAborted(signal);
  if (!Number.isSafeInteger(exactBelow) || exactBelow < LEAST_INDEXED) {
    const message = `exactBelow must be a whole number of at least ${LEAST_INDEXED}, not ${exactBelow}.`;
    throw new HindsearchError("INVALID_ARGUMENT", message);
  }
  const { uri, local } = indexAddress(folder);
  const settings = await indexSettings(options);
  if (local) await prepare(uri);
  try {
    const { chunks, maxLineBytes, maxBytes } = options;
    const read = {
      ...(chunks && { chunks }),
      ...(maxLineBytes && { maxLineBytes }),
      ...(maxBytes && { maxBytes }),
    };
    const [paths, passages] = isPaths(source) ? [source, []] : [undefined, source];
    const builder = new BuilderProcess({ uri, storageOptions, paths, read, settings, exactBelow }, options);
    return await builder.run(passages, embedding);
  } catch (error) {
    if (signal?.aborted) throw abortedError(signal);
    throw error;
  }
}

async function indexSettings({
  analyzer = "plain",
  embedding,
  signal,
}: IndexBuildOptions): Promise<IndexSettings> {
  if (analyzer !== "plain" && analyzer !== "english") {
    const message = `analyzer must be "plain" or "english", not ${JSON.stringify(analyzer)}.`;
    throw new HindsearchError("INVALID_ARGUMENT", message);
  }
  if (embedding === undefined) return { analyzer, embedding: null };
  const vectors = await embedding.embed([PROBE], "passage", { signal });
  checkVectors(vectors, 1, embedding.name, undefined);
  return { analyzer, embedding: embeddingNote(embedding.name, vectors[0] as Float32Array) };
}

/** Makes the folder; one with anything else than an index in it is refused. */
async function prepare(folder: string): Promise<void> {
  let entries: string[];
  try {
    await makeFolder(folder);
    entries = await readdir(folder);
  } catch (cause) {
    const message = `Cannot build an index at ${folder}: ${(cause as Error).message}.`;
    throw new HindsearchError("IO", message, { cause });
  }
  if (entries.length === 0 || entries.includes("hindsearch.lance")) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${folder} is not empty and holds no index; build somewhere else, or empty it.`,
  );
}

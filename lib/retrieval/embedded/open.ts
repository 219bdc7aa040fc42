import { stat } from "node:fs/promises";
import type { Connection, Table } from "@lancedb/lancedb";
import { throwIfAborted } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { Scrubber } from "../../network/secrets.js";
import { checkVectors, type EmbeddingModel } from "../embedding/embedding-model.js";
import { indexAddress } from "./build.js";
import { loadLance } from "./lance-package.js";
import {
  embeddingNote,
  type IndexManifest,
  IndexNotes,
  PROBE,
  sameEmbedding,
  TABLE,
  TEXT,
  VECTOR,
} from "./manifest.js";
import { type CorpusIndexOptions, checkedOptions, type SearchMode } from "./open-options.js";

/** An index that is open, and how it is searched. */
export interface OpenIndex {
  connection: Connection;
  table: Table;
  manifest: IndexManifest;
  embedding: EmbeddingModel | undefined;
  mode: SearchMode;
  concurrency: number;
  probes: number | undefined;
  fusion: { k: number; depth: number };
}

/** What {@link CorpusIndex.open} does. */
export async function openIndex(folder: string, options: CorpusIndexOptions): Promise<OpenIndex> {
  const { embedding, storageOptions = {}, signal } = options;
  const settings = checkedOptions(options);
  const { uri, local } = indexAddress(folder);
  if (local && !(await isFolder(uri))) throw noIndex(uri);
  const { lance } = await loadLance();
  throwIfAborted(signal);
  const scrubber = new Scrubber(Object.values(storageOptions));
  const connection = await lance.connect(uri, { storageOptions }).catch((cause) => {
    throw cannotOpen(uri, cause, scrubber);
  });
  try {
    const notes = await IndexNotes.open(connection, uri);
    notes.close();
    const { manifest } = notes;
    if (manifest === undefined) throw noIndex(uri, notes.settings !== undefined);
    checkCorpus(manifest, options.checksum, uri);
    if (settings.mode !== "lexical") await checkEmbedding(manifest, embedding, uri, signal);
    const table = await connection.openTable(TABLE);
    if (settings.mode !== "dense") await table.prewarmIndex(TEXT.index);
    if (settings.mode !== "lexical" && manifest.vectorIndex !== null) await table.prewarmIndex(VECTOR.index);
    return { connection, table, manifest, embedding, ...settings };
  } catch (cause) {
    connection.close();
    throw cause instanceof HindsearchError ? cause : cannotOpen(uri, cause, scrubber);
  }
}

function checkCorpus(manifest: IndexManifest, checksum: string | undefined, uri: string): void {
  if (checksum === undefined || checksum === manifest.checksum) return;
  throw new HindsearchError(
    "INDEX_MISMATCH",
    `${uri} is an index of another corpus: its checksum is ${manifest.checksum}, expected ${checksum}. Build it again.`,
  );
}

async function checkEmbedding(
  manifest: IndexManifest,
  embedding: EmbeddingModel | undefined,
  uri: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const mismatch = (message: string) => new HindsearchError("INDEX_MISMATCH", `${uri} ${message}`);
  if (manifest.embedding === null || embedding === undefined) {
    throw mismatch("was built without vectors; build it with an embedding model, or search in mode lexical.");
  }
  if (embedding.name !== manifest.embedding.model) {
    throw mismatch(
      `was built with the embedding model ${manifest.embedding.model}, not ${embedding.name}. Use that one, or build again.`,
    );
  }
  const vectors = await embedding.embed([PROBE], "passage", { signal });
  checkVectors(vectors, 1, embedding.name, manifest.embedding.dimensions);
  if (sameEmbedding(manifest.embedding, embeddingNote(embedding.name, vectors[0] as Float32Array))) return;
  throw mismatch(
    `was built with an embedding model of the same name, ${embedding.name}, that gave other vectors. Its weights, prefixes, ` +
      "pooling or normalisation have changed; restore them, or build again.",
  );
}

async function isFolder(path: string): Promise<boolean> {
  const status = await stat(path).catch(() => undefined);
  return status?.isDirectory() ?? false;
}

function noIndex(uri: string, begun = false): HindsearchError {
  const message = begun
    ? `${uri} holds an index that is not complete. The same CorpusIndex.build goes on with it.`
    : `${uri} is not a search index. CorpusIndex.build makes one, and so does hindsearch index.`;
  return new HindsearchError("INVALID_DATA", message);
}

/** Without the cause, which may quote a key of the object store. */
function cannotOpen(uri: string, cause: unknown, scrubber: Scrubber): HindsearchError {
  const reason = scrubber.scrub((cause as Error).message);
  const message = `The search engine cannot open the index at ${uri}: ${reason}. Build it again.`;
  return new HindsearchError("RETRIEVAL_FAILED", message);
}

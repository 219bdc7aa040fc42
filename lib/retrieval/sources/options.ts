import type { JsonlOptions } from "../../data/jsonl.js";
import type { ChunkOptions } from "./chunks.js";

/** Limits of {@link readCorpus}, and how it cuts documents. */
export interface CorpusOptions extends JsonlOptions {
  /** How the files of a folder are cut into passages. */
  chunks?: ChunkOptions | undefined;
}

import { createHash } from "node:crypto";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { formatContents, type Passage } from "./passage.js";
import { readCorpus } from "./sources/corpus.js";
import type { CorpusOptions } from "./sources/options.js";
import { TimeSlicer } from "./time-slice.js";

/** Where passages come from: paths as {@link readCorpus} takes them, or the passages. */
export type CorpusSource = string | readonly string[] | Iterable<Passage> | AsyncIterable<Passage>;

/** Whether a source is one path or several. */
export function isPaths(source: CorpusSource): source is string | readonly string[] {
  return typeof source === "string" || (Array.isArray(source) && typeof source[0] === "string");
}

/**
 * SHA-256 over id, title and text of every passage in turn. It depends on what a corpus says and not on how it is
 * stored: plain, gzip and Parquet files of the same passages have the same one.
 */
export class CorpusDigest {
  readonly #hash = createHash("sha256");

  add({ id, contents }: { id: string; contents: string }): void {
    // The lengths keep apart what the texts alone would not: ("ab", "c") and ("a", "bc").
    this.#hash.update(`${Buffer.byteLength(id)} ${Buffer.byteLength(contents)}\n${id}${contents}`);
  }

  /** Of what was added so far; more may follow. */
  value(): string {
    return this.#hash.copy().digest("hex");
  }
}

/**
 * The checksum that an index of this corpus has in its manifest.
 *
 * @param source - As in `CorpusIndex.build`.
 * @param options - Limits as of {@link readCorpus}, and `signal`.
 * @throws {@link HindsearchError} What {@link readCorpus} throws.
 */
export async function corpusChecksum(
  source: CorpusSource,
  options: CorpusOptions & AbortOptions = {},
): Promise<string> {
  const slicer = new TimeSlicer();
  const digest = new CorpusDigest();
  for await (const passage of isPaths(source) ? readCorpus(source, options) : source) {
    throwIfAborted(options.signal);
    digest.add({ id: passage.id, contents: formatContents(passage) });
    await slicer.turn();
  }
  return digest.value();
}

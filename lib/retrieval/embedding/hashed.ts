import { type AbortOptions, throwIfAborted } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { analyzePieces, plainAnalyzer } from "../analyzer.js";
import { hashText } from "../text-hash.js";
import { TimeSlicer } from "../time-slice.js";
import { type EmbeddingModel, normalize } from "./embedding-model.js";

/** Characters of a text that count. */
const MAX_TEXT = 65_536;

/**
 * Feature hashing (Weinberger et al. 2009, arXiv:0902.2206) of words and of their trigrams: for tests, and for trying
 * hybrid search out without a server. It knows spellings, not meanings: "colour" is near "colours", and as far from
 * "hue" as from anything.
 *
 * A word that occurs n times adds `sign * (1 + ln n)` to the place that its hash says, and each of its trigrams, with
 * its borders, `sign / sqrt(number of them)` times half of that to its own; the sum is scaled to unit length. A text
 * without words is the zero vector.
 */
export class HashedEmbedding implements EmbeddingModel {
  readonly name: string;
  readonly #dimensions: number;
  readonly #slicer = new TimeSlicer();

  /**
   * @param options - `dimensions`: length of the vectors, 16 to 4096. Default 256.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
   */
  constructor({ dimensions = 256 }: { dimensions?: number } = {}) {
    if (!Number.isSafeInteger(dimensions) || dimensions < 16 || dimensions > 4096) {
      const message = `dimensions must be a whole number from 16 to 4096, not ${dimensions}.`;
      throw new HindsearchError("INVALID_ARGUMENT", message);
    }
    this.#dimensions = dimensions;
    this.name = `hashed-${dimensions}`;
  }

  /** See {@link EmbeddingModel.embed}; queries and passages are encoded alike. */
  async embed(
    texts: readonly string[],
    _role: unknown,
    { signal }: AbortOptions = {},
  ): Promise<Float32Array[]> {
    const vectors: Float32Array[] = [];
    for (const text of texts) {
      throwIfAborted(signal);
      vectors.push(this.#vector(text.slice(0, MAX_TEXT)));
      await this.#slicer.turn();
    }
    return vectors;
  }

  #vector(text: string): Float32Array {
    const counts = new Map<string, number>();
    for (const terms of analyzePieces(text, plainAnalyzer)) {
      for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
    }
    const vector = new Float32Array(this.#dimensions);
    for (const [term, count] of counts) {
      const weight = 1 + Math.log(count);
      this.#add(vector, term, weight);
      const bordered = `<${term.slice(0, 64)}>`;
      const trigrams = bordered.length - 2;
      for (let i = 0; i < trigrams; i++) {
        this.#add(vector, bordered.slice(i, i + 3), (0.5 * weight) / Math.sqrt(trigrams));
      }
    }
    return normalize(vector);
  }

  #add(vector: Float32Array, feature: string, weight: number): void {
    const hash = hashText(feature);
    const place = Number(hash % BigInt(vector.length));
    vector[place] = (vector[place] as number) + (hash >> 63n === 1n ? -weight : weight);
  }
}

import type { AbortOptions } from "../../abort.js";
import { HindsearchError } from "../../errors.js";

/** What a text is to a search: many models encode the two differently. */
export type TextRole = "query" | "passage";

/**
 * A model that turns texts into vectors, such that a query's vector has a large inner product with those of passages
 * that answer it.
 */
export interface EmbeddingModel {
  /** Which model it is. An index is searched only with the model that it was built with. */
  readonly name: string;

  /**
   * Encodes texts of any number and length.
   *
   * @param texts - Foreign text.
   * @param role - What they are.
   * @param options - `signal` ends the call.
   * @returns One vector per text, in their order; all of the same length, every time.
   * @throws {@link HindsearchError} `RETRIEVAL_FAILED` if the model cannot answer, `ABORTED`, `DISPOSED` after
   * `close()`.
   */
  embed(texts: readonly string[], role: TextRole, options?: AbortOptions): Promise<Float32Array[]>;

  /** Gives back sockets and memory. May be called again. */
  close?(): Promise<void>;
}

/**
 * Checks what a model returned, which is foreign code or a server.
 *
 * @param dimensions - Length of the vectors; `undefined` if it is not known yet.
 * @throws {@link HindsearchError} `RETRIEVAL_FAILED` for a wrong number of vectors or one that is not finite,
 * `INDEX_MISMATCH` for another length than `dimensions`.
 */
export function checkVectors(
  vectors: readonly Float32Array[],
  texts: number,
  model: string,
  dimensions: number | undefined,
): void {
  const fail = (what: string) =>
    new HindsearchError("RETRIEVAL_FAILED", `Embedding model ${model}: ${what}.`, { retryable: false });
  if (!Array.isArray(vectors) || vectors.length !== texts) {
    throw fail(`${Array.isArray(vectors) ? vectors.length : "no"} vectors for ${texts} texts`);
  }
  const length = dimensions ?? vectors[0]?.length;
  for (const [i, vector] of vectors.entries()) {
    if (!(vector instanceof Float32Array) || vector.length === 0)
      throw fail(`vector ${i} is no Float32Array`);
    if (vector.length !== length) {
      if (dimensions === undefined) throw fail(`vectors of ${length} and of ${vector.length} numbers`);
      throw new HindsearchError(
        "INDEX_MISMATCH",
        `Embedding model ${model} gives vectors of ${vector.length} numbers, but those of the index have ${length}. ` +
          "Use the model that the index was built with, or build it again.",
      );
    }
    if (!vector.every(Number.isFinite)) throw fail(`vector ${i} holds numbers that are not finite`);
  }
}

/** Scales a vector to unit length in place; one of zeros stays. */
export function normalize(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const x of vector) squares += x * x;
  if (squares === 0) return vector;
  const scale = 1 / Math.sqrt(squares);
  for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] as number) * scale;
  return vector;
}

/** Of two vectors of one length, in double precision. */
export function innerProduct(x: Float32Array, y: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += (x[i] as number) * (y[i] as number);
  return sum;
}

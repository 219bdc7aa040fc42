import type { AbortOptions } from "../../abort.js";
import { AttemptError } from "../../network/retry.js";

/** What dense search needs of an embedding model. */
export interface QueryEncoder {
  /**
   * @param texts - Queries.
   * @param role - How they are encoded: many models do it otherwise for passages.
   * @param options - `signal` ends the call.
   * @returns One vector per text, in their order, all of the same length.
   */
  embed(texts: readonly string[], role: "query", options?: AbortOptions): Promise<Float32Array[]>;
}

/**
 * The vectors of queries, checked: the model is foreign code or a server.
 *
 * @throws What the encoder throws, and {@link AttemptError} for a wrong number of vectors or one that is not finite.
 */
export async function encodeQueries(
  encoder: QueryEncoder,
  queries: readonly string[],
  signal: AbortSignal,
): Promise<Float32Array[]> {
  const vectors = await encoder.embed(queries, "query", { signal });
  const fail = (problem: string) =>
    new AttemptError(`the query encoder gave ${problem}`, { retryable: false });
  if (vectors.length !== queries.length)
    throw fail(`${vectors.length} vectors for ${queries.length} queries`);
  const length = vectors[0]?.length ?? 0;
  for (const [i, vector] of vectors.entries()) {
    if (vector.length !== length || length === 0)
      throw fail(`vectors of ${length} and ${vector.length} numbers`);
    if (!vector.every(Number.isFinite)) throw fail(`numbers that are not finite in vector ${i}`);
  }
  return vectors;
}

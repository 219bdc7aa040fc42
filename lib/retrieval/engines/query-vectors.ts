import { z } from "zod";
import { checkVectors, type EmbeddingModel } from "../embedding/embedding-model.js";

/** Schema of an option that is an {@link EmbeddingModel}. */
export const embeddingModel = z.custom<EmbeddingModel>(
  (value) => typeof (value as EmbeddingModel)?.embed === "function",
  "is no EmbeddingModel",
);

/**
 * The vectors of queries, checked.
 *
 * @throws {@link HindsearchError} What the model throws, and `RETRIEVAL_FAILED` for a wrong number of vectors or one that is
 * not finite.
 */
export async function queryVectors(
  embedding: EmbeddingModel,
  queries: readonly string[],
  signal: AbortSignal,
): Promise<Float32Array[]> {
  const vectors = await embedding.embed(queries, "query", { signal });
  checkVectors(vectors, queries.length, embedding.name, undefined);
  return vectors;
}

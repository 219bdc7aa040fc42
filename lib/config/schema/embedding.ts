import { z } from "zod";
import { httpEmbeddingShape } from "../../retrieval/embedding/http.js";
import { described, kind } from "./fields.js";
import { ENDPOINT_TEXTS, keyText } from "./network.js";

/** What makes vectors of texts. */
export const Embedding = z
  .discriminatedUnion("kind", [
    z.strictObject({
      kind: kind("http", "An embedding model behind HTTP."),
      ...described(httpEmbeddingShape, {
        ...ENDPOINT_TEXTS,
        apiKey: keyText("HINDSEARCH_EMBEDDING_API_KEY"),
        dialect:
          "`openai` is `POST /v1/embeddings`, `tei` the `POST /embed` of text-embeddings-inference. Default: by the end of the address.",
        model: "Sent to OpenAI-compatible servers, and the name by which an index knows the model.",
        prefixes: "Put in front of every text. Default by the model's name: those of e5 and bge.",
        normalize: "Whether vectors are scaled to unit length.",
        pooling: "How token vectors become one: by the server, or here from `POST /embed_all`.",
        dimensions: "Length of the vectors, asked for and checked. Default: whatever comes.",
        batchSize: "Most texts in one request.",
        maxTextLength: "Longer texts are cut to so many characters.",
      }),
    }),
    z.strictObject({
      kind: kind("hashed", "Feature hashing of words: knows spellings, not meanings; for tests."),
      dimensions: z.int().min(16).max(4096).default(256).describe("Length of the vectors."),
    }),
  ])
  .meta({ id: "embedding" });

/** See {@link Embedding}. */
export type EmbeddingConfig = z.output<typeof Embedding>;

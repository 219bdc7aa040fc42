import { z } from "zod";
import { AttemptError } from "../../network/retry.js";

const OpenAI = z.object({
  data: z.array(z.object({ index: z.int().min(0), embedding: z.union([z.string(), z.array(z.number())]) })),
});
const Vectors = z.array(z.array(z.number()));
const TokenVectors = z.array(z.array(z.array(z.number())).min(1));

/**
 * Checks what `POST /v1/embeddings` answered. Vectors may be numbers or base64 of little-endian float32, and come in
 * any order: each says which text it is of.
 *
 * @throws {@link AttemptError} if it has another form, or not one usable vector for each text.
 */
export function parseOpenAIEmbeddings(answer: unknown, texts: number): Float32Array[] {
  const { data } = parse(OpenAI, answer, '{"data": [{"index", "embedding"}]}');
  checkCount(data.length, texts);
  const vectors = new Array<Float32Array>(texts);
  for (const { index, embedding } of data) {
    if (index >= texts || vectors[index] !== undefined) {
      throw malformed(`index ${index} comes twice or belongs to no text`);
    }
    vectors[index] = checked(
      typeof embedding === "string" ? fromBase64(embedding) : Float32Array.from(embedding),
    );
  }
  return vectors;
}

/** Checks what `POST /embed` of text-embeddings-inference answered. */
export function parseTeiEmbeddings(answer: unknown, texts: number): Float32Array[] {
  const vectors = parse(Vectors, answer, "a list of vectors");
  checkCount(vectors.length, texts);
  return vectors.map((vector) => checked(Float32Array.from(vector)));
}

/** Checks what `POST /embed_all` answered, and makes one vector of those of a text's tokens. */
export function parseTokenEmbeddings(
  answer: unknown,
  texts: number,
  pooling: "mean" | "cls",
): Float32Array[] {
  const all = parse(TokenVectors, answer, "a list of lists of vectors, one per token");
  checkCount(all.length, texts);
  return all.map((tokens) => {
    const [first] = tokens as [number[]];
    if (tokens.some(({ length }) => length !== first.length))
      throw malformed("token vectors differ in length");
    if (pooling === "cls") return checked(Float32Array.from(first));
    const mean = first.map(
      (_, i) => tokens.reduce((sum, token) => sum + (token[i] as number), 0) / tokens.length,
    );
    return checked(Float32Array.from(mean));
  });
}

function parse<Schema extends z.ZodType>(
  schema: Schema,
  answer: unknown,
  expected: string,
): z.output<Schema> {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0] as z.core.$ZodIssue;
  throw malformed(`${path.length === 0 ? "the answer" : path.join(".")}: ${message}; expected ${expected}`);
}

function fromBase64(text: string): Float32Array {
  const bytes = Uint8Array.from(Buffer.from(text, "base64"));
  if (bytes.length % 4 !== 0) throw malformed(`${bytes.length} bytes are no vector of float32`);
  return new Float32Array(bytes.buffer);
}

function checked(vector: Float32Array): Float32Array {
  if (vector.length === 0) throw malformed("a vector is empty");
  if (!vector.every(Number.isFinite)) throw malformed("a vector holds numbers that are not finite");
  return vector;
}

function checkCount(vectors: number, texts: number): void {
  if (vectors !== texts) throw malformed(`${vectors} vectors for ${texts} texts`);
}

function malformed(problem: string): AttemptError {
  return new AttemptError(`the answer is no list of embeddings: ${problem}`, {
    retryable: false,
    status: 200,
  });
}

/** The program in which `parquet.ts` has a Parquet file decoded: one batch of passages for every message. */
import { HindsearchError } from "../../errors.js";
import type { Passage } from "../passage.js";
import type { ParquetReply, ParquetRequest } from "./parquet-messages.js";
import { parquetRows } from "./parquet-rows.js";

/** Passages and characters in one message, so that neither side copies for long. */
const [BATCH_PASSAGES, BATCH_CHARACTERS] = [500, 1 << 20];

let rows: AsyncGenerator<Passage, void> | undefined;

async function batch({ path, limits }: ParquetRequest): Promise<Passage[]> {
  rows ??= parquetRows(path, limits);
  const passages: Passage[] = [];
  for (let characters = 0; passages.length < BATCH_PASSAGES && characters < BATCH_CHARACTERS; ) {
    const { done, value } = await rows.next();
    if (done) break;
    passages.push(value);
    characters += value.title.length + value.text.length;
  }
  return passages;
}

process.on("message", async (request: ParquetRequest) => {
  const reply = await batch(request).then(
    (passages): ParquetReply => ({ passages }),
    (error): ParquetReply => ({
      code: error instanceof HindsearchError ? error.code : "INTERNAL",
      message: error.message,
    }),
  );
  process.send?.(reply);
});

// Also when the parent dies.
process.once("disconnect", () => process.exit());

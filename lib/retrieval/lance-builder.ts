/**
 * The program that builds an index, run by `lance-build.ts` in a process of its own: with its own thread count, and
 * killable when the engine hangs.
 */
import type { Table } from "@lancedb/lancedb";
import { HindsearchError, type HindsearchErrorCode } from "../errors.js";
import { readCorpus } from "./corpus.js";
import { COLUMN, TABLE, writeManifest } from "./lance-format.js";
import { loadLance } from "./lance-package.js";
import { formatContents } from "./passage.js";

/** What the parent asks for. */
export interface BuildRequest {
  corpus: string;
  folder: string;
}

/** What the program tells: a sign of life every second, and how it ended. */
export type BuildMessage =
  | { kind: "alive"; passages: number; indexing: boolean; cpuMicroseconds: number }
  | { kind: "done"; passages: number }
  | { kind: "failed"; code: HindsearchErrorCode; message: string };

/** Nobody waits for this process's event loop, and passages of any length may have been written for it. */
const MAX_LINE_BYTES = 2 ** 28;
const BATCH_ROWS = 20_000;
const BATCH_CHARACTERS = 1 << 25;

let passages = 0;
let indexing = false;

function tell(message: BuildMessage): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function build({ corpus, folder }: BuildRequest): Promise<void> {
  const lance = await loadLance();
  const database = await lance.connect(folder);
  let table: Table | undefined;
  let rows: { id: string; contents: string }[] = [];
  let characters = 0;
  const flush = async () => {
    if (rows.length === 0) return;
    const data = lance.makeArrowTable(rows);
    if (table === undefined) table = await database.createTable(TABLE, data);
    else await table.add(data);
    rows = [];
    characters = 0;
  };
  for await (const passage of readCorpus(corpus, { maxLineBytes: MAX_LINE_BYTES })) {
    const contents = formatContents(passage);
    rows.push({ id: passage.id, contents });
    characters += contents.length;
    passages++;
    if (rows.length === BATCH_ROWS || characters > BATCH_CHARACTERS) await flush();
  }
  await flush();
  if (table === undefined) {
    throw new HindsearchError("INVALID_DATA", `${corpus} holds no passage; there is nothing to index.`);
  }
  indexing = true;
  await table.createIndex(COLUMN, {
    config: lance.Index.fts({
      baseTokenizer: "simple",
      lowercase: true,
      stem: false,
      removeStopWords: false,
      asciiFolding: false,
      withPosition: false,
    }),
  });
  table.close();
  database.close();
  await writeManifest(folder, passages);
}

process.once("message", async (request: BuildRequest) => {
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage();
    void tell({ kind: "alive", passages, indexing, cpuMicroseconds: user + system });
  }, 1000);
  try {
    await build(request);
    await tell({ kind: "done", passages });
  } catch (error) {
    const code = error instanceof HindsearchError ? error.code : "RETRIEVAL_FAILED";
    await tell({ kind: "failed", code, message: error instanceof Error ? error.message : String(error) });
  }
  clearInterval(timer);
  process.disconnect();
});

// Also when the parent dies; the engine's threads do not keep the process then.
process.once("disconnect", () => process.exit());

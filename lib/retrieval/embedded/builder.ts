/**
 * The program that builds an index, run by `build.ts` in a process of its own: with its own thread count, and killable
 * when the engine hangs.
 */
import { HindsearchError } from "../../errors.js";
import { Scrubber } from "../../network/secrets.js";
import type { Passage } from "../passage.js";
import { readCorpus } from "../sources/corpus.js";
import { passageOfRow } from "../sources/row.js";
import { loadLance } from "./lance-package.js";
import type { IndexManifest } from "./manifest.js";
import type { BuilderMessage, BuildRequest, ParentMessage } from "./messages.js";
import { TableWriter } from "./table-writer.js";

let writer: TableWriter | undefined;
let answer: ((message: ParentMessage) => void) | undefined;

function tell(message: BuilderMessage): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function ask<Kind extends ParentMessage["kind"]>(
  question: BuilderMessage,
  kind: Kind,
): Promise<Extract<ParentMessage, { kind: Kind }>> {
  const reply = new Promise<ParentMessage>((resolve) => {
    answer = resolve;
  });
  await tell(question);
  const message = await reply;
  if (message.kind !== kind) throw new HindsearchError("INTERNAL", `Expected ${kind}, got ${message.kind}.`);
  return message as Extract<ParentMessage, { kind: Kind }>;
}

async function* passagesOfParent(): AsyncGenerator<Passage> {
  for (let number = 0; ; ) {
    const { passages } = await ask({ kind: "passages?" }, "passages");
    if (passages.length === 0) return;
    for (const passage of passages) {
      yield passageOfRow(passage, (problem) => {
        const expected = "expected {id, title, text}";
        return new HindsearchError(
          "INVALID_DATA",
          `Passage ${number}, counted from 0: ${problem}; ${expected}.`,
        );
      });
      number++;
    }
  }
}

async function build(request: BuildRequest): Promise<IndexManifest> {
  const { uri, storageOptions, paths, read } = request;
  const { lance, arrow } = await loadLance();
  const database = await lance.connect(uri, { storageOptions });
  const embed = async (texts: string[]) => (await ask({ kind: "vectors?", texts }, "vectors")).numbers;
  writer = await TableWriter.open(database, { lance, arrow, embed, request });
  try {
    const passages = paths === undefined ? passagesOfParent() : readCorpus(paths, read);
    for await (const passage of passages) await writer.add(passage);
    return await writer.finish();
  } finally {
    writer.close();
    database.close();
  }
}

async function run(request: BuildRequest): Promise<void> {
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage();
    const { passages = 0, indexing = false } = writer ?? {};
    void tell({ kind: "alive", passages, indexing, cpuMicroseconds: user + system });
  }, 1000);
  try {
    await tell({ kind: "done", manifest: await build(request) });
  } catch (error) {
    const code = error instanceof HindsearchError ? error.code : "RETRIEVAL_FAILED";
    const message = error instanceof Error ? error.message : String(error);
    const scrubber = new Scrubber(Object.values(request.storageOptions));
    await tell({ kind: "failed", code, message: scrubber.scrub(message) });
  }
  clearInterval(timer);
  process.disconnect();
}

process.on("message", (message: ParentMessage) => {
  if (message.kind === "build") void run(message.request);
  else answer?.(message);
});

// Also when the parent dies; the engine's threads do not keep the process then.
process.once("disconnect", () => process.exit());

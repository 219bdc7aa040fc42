import type { ChildProcess } from "node:child_process";
import { abortable, throwIfAborted, withDeadline } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { startProgram } from "../child-program.js";
import type { Passage } from "../passage.js";
import type { CorpusOptions } from "./options.js";
import type { ParquetReply, ParquetRequest } from "./parquet-messages.js";

/** For one row group, which takes seconds; a damaged one may take for ever. */
const DEADLINE_MS = 60_000;
/** Of the process's heap, beside the bytes of the file. */
const HEAP_MIB = 4096;

/**
 * Reads a Parquet file in a process of its own: the decoder works for long at a stretch, and a damaged file can make it
 * loop for ever or ask for any amount of memory. See {@link readCorpus}.
 */
export async function* readParquet(
  path: string,
  { maxLineBytes, maxBytes, signal }: CorpusOptions,
  deadlineMs = DEADLINE_MS,
): AsyncGenerator<Passage, void> {
  throwIfAborted(signal);
  const child = startProgram(new URL("./parquet-reader", import.meta.url), {
    nodeOptions: [`--max-old-space-size=${HEAP_MIB}`],
  });
  const request = { path, limits: { maxLineBytes, maxBytes } };
  try {
    for (;;) {
      const reply = await ask(child, request, deadlineMs, signal);
      if ("code" in reply) throw new HindsearchError(reply.code, reply.message);
      if (reply.passages.length === 0) return;
      yield* reply.passages;
    }
  } finally {
    child.kill("SIGKILL");
  }
}

async function ask(
  child: ChildProcess,
  request: ParquetRequest,
  deadlineMs: number,
  signal: AbortSignal | undefined,
): Promise<ParquetReply> {
  return withDeadline(deadlineMs, signal, async (inner, timedOut) => {
    try {
      return await abortable(answer(child, request), inner);
    } catch (cause) {
      throwIfAborted(signal);
      const reason = timedOut() ? `nothing was decoded for ${deadlineMs / 1000} s` : (cause as Error).message;
      const message = `${request.path}: not a readable Parquet file: ${reason}.`;
      throw new HindsearchError("INVALID_DATA", message, { cause });
    }
  });
}

function answer(child: ChildProcess, request: ParquetRequest): Promise<ParquetReply> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      child.removeAllListeners();
      act();
    };
    child.once("message", (reply) => settle(() => resolve(reply as ParquetReply)));
    child.once("error", (cause) => settle(() => reject(cause)));
    child.once("exit", (code, by) =>
      settle(() => reject(new Error(`the process that decodes it died (${by ?? `exit code ${code}`})`))),
    );
    // What is gone is told by its exit.
    child.send(request, () => {});
  });
}

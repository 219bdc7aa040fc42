import { type ChildProcess, fork } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdir, rename, rm, rmdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { extname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type AbortOptions, abortedError, onAbort, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { BuildMessage, BuildRequest } from "./lance-builder.js";
import { lanceThreads } from "./lance-package.js";
import { formatContents, type Passage } from "./passage.js";

/** How far an index build is. */
export interface IndexProgress {
  /** First the corpus is read, then it is indexed. */
  phase: "reading" | "indexing";
  /** Passages read so far. */
  passages: number;
}

/** Settings of an index build. */
export interface IndexBuildOptions extends AbortOptions {
  /** Called about once a second. */
  onProgress?: (progress: IndexProgress) => void;
  /**
   * The build is given up when it has used next to no processor time for this many milliseconds. Default 120,000: the
   * engine is known to hang with all its threads asleep on small machines.
   */
  stallTimeoutMs?: number;
}

/** See `LanceRetriever.build`. */
export async function buildLanceIndex(
  folder: string,
  corpus: string | Iterable<Passage> | AsyncIterable<Passage>,
  options: IndexBuildOptions,
): Promise<void> {
  const { signal } = options;
  throwIfAborted(signal);
  const partial = `${resolve(folder)}.partial-${process.pid}-${Date.now()}`;
  try {
    await makeWay(folder);
    await mkdir(partial, { recursive: true });
    try {
      const index = join(partial, "index");
      const path = typeof corpus === "string" ? resolve(corpus) : join(partial, "corpus.jsonl");
      if (typeof corpus !== "string") {
        await pipeline(Readable.from(rows(corpus)), createWriteStream(path), { signal });
      }
      await runBuilder({ corpus: path, folder: index }, options);
      await makeWay(folder);
      await rename(index, folder);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  } catch (error) {
    if (signal?.aborted) throw abortedError(signal);
    if (!(error instanceof Error && "syscall" in error)) throw error;
    const message = `Cannot build an index at ${folder}: ${error.message}.`;
    throw new HindsearchError("IO", message, { cause: error });
  }
}

/** Makes sure that `folder` can be renamed to: an empty one is removed, a full one is an error. */
async function makeWay(folder: string): Promise<void> {
  await rmdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return;
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${folder} exists and is not empty; open it, delete it, or build somewhere else.`,
    );
  });
}

async function* rows(passages: Iterable<Passage> | AsyncIterable<Passage>): AsyncGenerator<string> {
  for await (const passage of passages) {
    yield `${JSON.stringify({ id: passage.id, contents: formatContents(passage) })}\n`;
  }
}

function runBuilder(request: BuildRequest, options: IndexBuildOptions): Promise<void> {
  const { signal, onProgress, stallTimeoutMs = 120_000 } = options;
  const child = startBuilder();
  const watch = new StallWatch(stallTimeoutMs);
  return new Promise<void>((resolve, reject) => {
    let done = false;
    let failure: unknown;
    let complaints = "";
    const fail = (error: unknown) => {
      failure ??= error;
      child.kill("SIGKILL");
    };
    const off = onAbort(signal, () => signal && fail(abortedError(signal)));
    const timer = setInterval(() => {
      if (watch.stalled()) fail(stallError(request.folder, stallTimeoutMs));
    }, 500);
    // Settled only when the process is gone: until then it may write into the folder that is about to be removed.
    const settle = (how: string) => {
      clearInterval(timer);
      off();
      if (failure !== undefined) reject(failure);
      else if (!done) reject(diedError(how, complaints));
      else resolve();
    };
    child.stderr?.on("data", (text: Buffer) => {
      complaints = (complaints + text.toString()).slice(-2000);
    });
    child.on("message", (message: BuildMessage) => {
      try {
        if (message.kind === "failed") throw new HindsearchError(message.code, message.message);
        if (message.kind === "done") done = true;
        else {
          watch.beat(message.cpuMicroseconds / 1000);
          onProgress?.({ phase: message.indexing ? "indexing" : "reading", passages: message.passages });
        }
      } catch (error) {
        fail(error);
      }
    });
    child.once("error", (cause) => settle(cause.message));
    child.once("exit", (code, killed) => settle(killed === null ? `exit code ${code}` : `signal ${killed}`));
    child.send(request);
  });
}

function startBuilder(): ChildProcess {
  // Compiled, this is a .js file beside its sibling; run from the sources, both are .ts and need the loader.
  const extension = extname(fileURLToPath(import.meta.url));
  const program = fileURLToPath(new URL(`./lance-builder${extension}`, import.meta.url));
  const loader =
    extension === ".ts"
      ? ["--import", pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href]
      : [];
  return fork(program, {
    execArgv: loader,
    env: { ...process.env, LANCE_CPU_THREADS: String(lanceThreads()) },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
}

/** Tells a process that waits for ever from a busy one: by the processor time it used. */
class StallWatch {
  #since = performance.now();
  #cpuThen = 0;

  constructor(readonly limitMs: number) {}

  /** Takes the process's total processor time in. The signs of life themselves cost about a millisecond a second. */
  beat(cpuMs: number): void {
    const elapsed = performance.now() - this.#since;
    if (cpuMs - this.#cpuThen < 20 + elapsed / 100) return;
    this.#since = performance.now();
    this.#cpuThen = cpuMs;
  }

  stalled(): boolean {
    return performance.now() - this.#since > this.limitMs;
  }
}

function stallError(folder: string, milliseconds: number): HindsearchError {
  return new HindsearchError(
    "RETRIEVAL_FAILED",
    `The index build for ${folder} made no progress for ${milliseconds / 1000} s and was ended. On a machine with few ` +
      `cores set LANCE_CPU_THREADS to more than ${lanceThreads()}.`,
  );
}

function diedError(how: string, complaints: string): HindsearchError {
  const said = complaints.trim() === "" ? "without a word" : `saying: ${complaints.trim()}`;
  return new HindsearchError(
    "RETRIEVAL_FAILED",
    `The process that builds the index ended early (${how}), ${said}. If it ran out of memory, use a larger machine.`,
  );
}

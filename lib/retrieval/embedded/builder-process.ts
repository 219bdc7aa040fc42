import type { ChildProcess } from "node:child_process";
import { type AbortOptions, abortedError, onAbort } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { startProgram } from "../child-program.js";
import { checkVectors, type EmbeddingModel } from "../embedding/embedding-model.js";
import type { Passage } from "../passage.js";
import { lanceThreads } from "./lance-package.js";
import type { IndexManifest } from "./manifest.js";
import type { BuilderMessage, BuildRequest, ParentMessage } from "./messages.js";

/** How far an index build is. */
export interface IndexProgress {
  /** First the corpus is read, embedded and written, then it is indexed. */
  phase: "reading" | "indexing";
  /** Passages read so far; after a resumption those count that were written before. */
  passages: number;
}

/** How a builder is watched. */
export interface BuilderOptions extends AbortOptions {
  /** Called about once a second. */
  onProgress?: ((progress: IndexProgress) => void) | undefined;
  /**
   * The build is given up when it has used next to no processor time for this many milliseconds, waits for passages and
   * vectors not counted. Default 120,000: the engine is known to hang with all its threads asleep on small machines.
   */
  stallTimeoutMs?: number | undefined;
}

/** Passages and characters in one message, so that neither side serialises for long. */
const [MESSAGE_PASSAGES, MESSAGE_CHARACTERS] = [500, 1 << 20];

/** A builder at work: answers its questions, and ends it when it hangs or is not wanted any more. */
export class BuilderProcess {
  readonly #request: BuildRequest;
  readonly #options: BuilderOptions;
  readonly #child: ChildProcess;
  readonly #watch: StallWatch;
  readonly #stop = new AbortController();
  #failure: unknown;
  #manifest: IndexManifest | undefined;

  constructor(request: BuildRequest, options: BuilderOptions) {
    this.#request = request;
    this.#options = options;
    this.#watch = new StallWatch(options.stallTimeoutMs ?? 120_000);
    this.#child = startProgram(new URL("./builder", import.meta.url), {
      env: { LANCE_CPU_THREADS: String(lanceThreads()) },
    });
  }

  /** Resolves or rejects only when the process is gone: until then it may write into the index. */
  async run(
    passages: Iterable<Passage> | AsyncIterable<Passage>,
    embedding: EmbeddingModel | undefined,
  ): Promise<IndexManifest> {
    const { signal } = this.#options;
    const iterator = iterate(passages);
    const off = onAbort(signal, () => signal && this.#fail(abortedError(signal)));
    const timer = setInterval(() => {
      if (this.#watch.stalled()) this.#fail(stallError(this.#request.uri, this.#watch.limitMs));
    }, 500);
    let complaints = "";
    this.#child.stderr?.on("data", (text: Buffer) => {
      complaints = (complaints + text.toString()).slice(-2000);
    });
    this.#child.on("message", (message: BuilderMessage) => {
      this.#take(message, iterator, embedding).catch((error) => this.#fail(error));
    });
    const ended = new Promise<string>((resolve) => {
      this.#child.once("error", (cause) => resolve(cause.message));
      this.#child.once("exit", (code, by) => resolve(by === null ? `exit code ${code}` : `signal ${by}`));
    });
    this.#send({ kind: "build", request: this.#request });
    const how = await ended;
    clearInterval(timer);
    off();
    this.#stop.abort();
    // Not awaited: a generator that waits for something never ends otherwise.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#manifest === undefined) throw diedError(how, complaints);
    return this.#manifest;
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#stop.abort();
    this.#child.kill("SIGKILL");
  }

  #send(message: ParentMessage): void {
    // A process that is gone is told by its exit.
    this.#child.send(message, () => {});
  }

  async #take(
    message: BuilderMessage,
    passages: AsyncIterator<Passage> | Iterator<Passage>,
    embedding: EmbeddingModel | undefined,
  ): Promise<void> {
    switch (message.kind) {
      case "failed":
        throw new HindsearchError(message.code, message.message);
      case "done":
        this.#manifest = message.manifest;
        return;
      case "alive": {
        this.#watch.beat(message.cpuMicroseconds / 1000);
        const { indexing, passages } = message;
        this.#options.onProgress?.({ phase: indexing ? "indexing" : "reading", passages });
        return;
      }
      case "passages?": {
        const some = await this.#watch.unwatched(() => take(passages));
        this.#send({ kind: "passages", passages: some });
        return;
      }
      case "vectors?": {
        const numbers = await this.#watch.unwatched(() => this.#vectors(message.texts, embedding));
        this.#send({ kind: "vectors", numbers });
      }
    }
  }

  async #vectors(texts: string[], embedding: EmbeddingModel | undefined): Promise<Float32Array> {
    const expected = this.#request.settings.embedding;
    if (embedding === undefined || expected === null) {
      throw new HindsearchError("INTERNAL", "The builder asks for vectors, but there is no embedding model.");
    }
    const vectors = await embedding.embed(texts, "passage", { signal: this.#stop.signal });
    checkVectors(vectors, texts.length, embedding.name, expected.dimensions);
    const numbers = new Float32Array(texts.length * expected.dimensions);
    for (const [i, vector] of vectors.entries()) numbers.set(vector, i * expected.dimensions);
    return numbers;
  }
}

function iterate(
  passages: Iterable<Passage> | AsyncIterable<Passage>,
): AsyncIterator<Passage> | Iterator<Passage> {
  return Symbol.asyncIterator in passages ? passages[Symbol.asyncIterator]() : passages[Symbol.iterator]();
}

/** The next passages; none at the end. */
async function take(passages: AsyncIterator<Passage> | Iterator<Passage>): Promise<Passage[]> {
  const some: Passage[] = [];
  for (let characters = 0; some.length < MESSAGE_PASSAGES && characters < MESSAGE_CHARACTERS; ) {
    const { done, value } = await passages.next();
    if (done) break;
    characters += String(value?.text).length + String(value?.title).length;
    some.push(value);
  }
  return some;
}

/** Tells a process that waits for ever from a busy one: by the processor time it used. */
class StallWatch {
  #since = performance.now();
  #cpuThen = 0;
  #paused = 0;

  constructor(readonly limitMs: number) {}

  /** Takes the process's total processor time in. The signs of life themselves cost about a millisecond a second. */
  beat(cpuMs: number): void {
    const elapsed = performance.now() - this.#since;
    if (cpuMs - this.#cpuThen < 20 + elapsed / 100) return;
    this.#since = performance.now();
    this.#cpuThen = cpuMs;
  }

  /** While the process waits for something else, it is not expected to work. */
  async unwatched<T>(wait: () => Promise<T>): Promise<T> {
    this.#paused++;
    try {
      return await wait();
    } finally {
      this.#paused--;
      this.#since = performance.now();
    }
  }

  stalled(): boolean {
    return this.#paused === 0 && performance.now() - this.#since > this.limitMs;
  }
}

function stallError(index: string, milliseconds: number): HindsearchError {
  return new HindsearchError(
    "RETRIEVAL_FAILED",
    `The index build for ${index} made no progress for ${milliseconds / 1000} s and was ended. On a machine with few ` +
      `cores set LANCE_CPU_THREADS to more than ${lanceThreads()}. The same call goes on where it was.`,
  );
}

function diedError(how: string, complaints: string): HindsearchError {
  const said = complaints.trim() === "" ? "without a word" : `saying: ${complaints.trim()}`;
  return new HindsearchError(
    "RETRIEVAL_FAILED",
    `The process that builds the index ended early (${how}), ${said}. The same call goes on where it was; if the process ` +
      "ran out of memory, use a larger machine.",
  );
}

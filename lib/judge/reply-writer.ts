import { abortedError, onAbort } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { Decoder, Segment, SubmitOptions } from "../policy/decoder.js";
import type { DecoderOptions, Policy } from "../policy/policy.js";

/** One reply to be written. */
interface Job {
  prompt: Int32Array;
  options: SubmitOptions;
  resolve(segment: Segment): void;
  reject(error: unknown): void;
}

/**
 * Lets a local model write many replies at once through one decoder. The decoder exists only while there is something
 * to write: between the steps of a training run its cache would be in the way.
 */
export class ReplyWriter {
  readonly #policy: Pick<Policy, "createDecoder">;
  readonly #options: DecoderOptions;
  readonly #waiting = new Set<Job>();
  readonly #active = new Map<number, Job>();
  #decoder: Decoder | undefined;
  #running = false;

  constructor(policy: Pick<Policy, "createDecoder">, options: DecoderOptions) {
    this.#policy = policy;
    this.#options = options;
  }

  /** What the model writes after a prompt. Rejects with what the decoder throws, or `ABORTED`. */
  write(prompt: Int32Array, options: SubmitOptions, signal: AbortSignal | undefined): Promise<Segment> {
    return new Promise<Segment>((resolve, reject) => {
      const job: Job = { prompt, options, resolve, reject };
      const off = onAbort(signal, () => {
        this.#withdraw(job);
        reject(abortedError(signal as AbortSignal));
      });
      job.resolve = (segment) => {
        off();
        resolve(segment);
      };
      job.reject = (error) => {
        off();
        reject(error);
      };
      if (signal?.aborted) return;
      this.#waiting.add(job);
      if (this.#decoder !== undefined) this.#submit(this.#decoder);
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    let failure: unknown = new HindsearchError("INTERNAL", "The decoder stopped with replies unfinished.");
    try {
      this.#decoder = await this.#policy.createDecoder(this.#options);
      this.#submit(this.#decoder);
      while (this.#active.size > 0) {
        const segments = await this.#decoder.next();
        if (segments.length === 0) break;
        for (const segment of segments) this.#finish(this.#decoder, segment);
      }
    } catch (error) {
      failure = error;
    }
    // From here to the end without a pause, so no job can come in between.
    for (const job of [...this.#active.values(), ...this.#waiting]) job.reject(failure);
    this.#active.clear();
    this.#waiting.clear();
    this.#decoder?.dispose();
    this.#decoder = undefined;
    this.#running = false;
  }

  #submit(decoder: Decoder): void {
    for (const job of this.#waiting) {
      this.#waiting.delete(job);
      try {
        this.#active.set(decoder.submit(job.prompt, job.options), job);
      } catch (error) {
        job.reject(error);
      }
    }
  }

  #finish(decoder: Decoder, segment: Segment): void {
    const job = this.#active.get(segment.sequence);
    if (job === undefined) return;
    this.#active.delete(segment.sequence);
    decoder.release(segment.sequence);
    job.resolve(segment);
  }

  #withdraw(job: Job): void {
    this.#waiting.delete(job);
    for (const [sequence, active] of this.#active) {
      if (active !== job) continue;
      this.#active.delete(sequence);
      this.#decoder?.release(sequence);
    }
  }
}

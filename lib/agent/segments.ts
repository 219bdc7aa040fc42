import { HindsearchError } from "../errors.js";
import type { Decoder, RandomStream, Segment, SegmentOptions } from "../policy/decoder.js";
import { Pacer } from "./pacer.js";

/** What a rollout needs of a decoder; a test may put a scripted one in its place. */
export type SequenceDecoder = Pick<Decoder, "submit" | "fork" | "extend" | "release" | "next">;

/**
 * Turns a decoder's `next()` into one promise per sequence, so that every trajectory can be written as straight code
 * while all of them decode together.
 */
export class Segments {
  readonly #decoder: SequenceDecoder;
  readonly #signal: AbortSignal | undefined;
  readonly #pending = new Map<number, { settle(result: Segment): void; fail(error: unknown): void }>();
  readonly #held = new Set<number>();
  #pumping = false;
  #stalled: (() => void) | undefined;
  /** Calls that may let something go on that could not. */
  #moves = 0;

  constructor(decoder: SequenceDecoder, signal?: AbortSignal) {
    this.#decoder = decoder;
    this.#signal = signal;
  }

  /**
   * Decodes the same prompt once per stream; the prompt is run once.
   *
   * @returns One sequence per stream with its first segment.
   */
  start(
    prompt: Int32Array,
    streams: readonly RandomStream[],
    options: SegmentOptions,
    reserve: number,
  ): { sequence: number; segment: Promise<Segment> }[] {
    const [first, ...others] = streams;
    const sequence = this.#decoder.submit(prompt, { ...options, ...first, reserve });
    this.#held.add(sequence);
    const forks = this.#decoder.fork(sequence, { ...options, streams: others });
    return [sequence, ...forks].map((id) => ({ sequence: id, segment: this.#segment(id) }));
  }

  /** Appends text to a sequence that has reported, and decodes on. */
  extend(sequence: number, tokens: Int32Array, options: SegmentOptions): Promise<Segment> {
    this.#decoder.extend(sequence, tokens, options);
    return this.#segment(sequence);
  }

  /** Gives a sequence's pages back. */
  release(sequence: number): void {
    if (this.#held.delete(sequence)) this.#decoder.release(sequence);
    this.#wake();
  }

  /** Gives back everything that is still held. */
  releaseAll(): void {
    for (const sequence of [...this.#held]) this.release(sequence);
  }

  #segment(sequence: number): Promise<Segment> {
    this.#held.add(sequence);
    const segment = new Promise<Segment>((settle, fail) => {
      this.#pending.set(sequence, { settle, fail });
    });
    this.#wake();
    if (!this.#pumping) void this.#pump();
    return segment;
  }

  #wake(): void {
    this.#moves++;
    this.#stalled?.();
    this.#stalled = undefined;
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    try {
      // Everything submitted in this turn of the event loop decodes in one batch from the start.
      await Promise.resolve();
      while (this.#pending.size > 0) {
        const moves = this.#moves;
        const results = await this.#decoder.next({ signal: this.#signal });
        const pacer = new Pacer();
        for (const result of results) {
          const waiter = this.#pending.get(result.sequence);
          this.#pending.delete(result.sequence);
          if (result.reason === "failed") waiter?.fail(failure(result));
          else waiter?.settle(result);
          await pacer.pause();
        }
        // Only if nothing moved since the call: what did was not seen by the engine when it found nothing to do.
        if (results.length === 0 && this.#pending.size > 0 && moves === this.#moves) await this.#stall();
      }
    } catch (error) {
      for (const { fail } of this.#pending.values()) fail(error);
      this.#pending.clear();
    } finally {
      this.#pumping = false;
    }
  }

  /** What is queued waits for pages of sequences that wait for their searches: until one of them moves. */
  #stall(): Promise<void> {
    return new Promise((resolve) => {
      this.#stalled = resolve;
    });
  }
}

function failure({ sequence, error }: Segment): HindsearchError {
  return new HindsearchError("NON_FINITE", `Decoding of sequence ${sequence} failed: ${error}`);
}

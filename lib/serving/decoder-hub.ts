import { type AbortOptions, onAbort, throwIfAborted } from "../abort.js";
import type { SequenceDecoder } from "../agent/segments.js";
import type { Tokens } from "../policy/batch.js";
import type { Decoder, ForkOptions, Segment, SegmentOptions, SubmitOptions } from "../policy/decoder.js";

/** Results on their way to whoever owns the sequences. */
interface Inbox {
  segments: Segment[];
  /** Wakes an open `next()`. */
  wake: () => void;
  /** What ended the decoder, for the next call. */
  error: unknown;
}

/**
 * One decoder for many users at once: each gets a decoder of its own to look at, all of them decode in one batch, and
 * results go to whoever submitted the sequence.
 */
export class DecoderHub {
  readonly #decoder: Decoder;
  readonly #owners = new Map<number, Inbox>();
  /** Inboxes with an open `next()`. */
  readonly #waiting = new Set<Inbox>();
  #pumping = false;
  #moves = 0;
  #stalled = () => {};

  constructor(decoder: Decoder) {
    this.#decoder = decoder;
  }

  /** A decoder for one user, who releases what it submits. Its `next()` waits until one of its own sequences stops. */
  user(): SequenceDecoder {
    const inbox: Inbox = { segments: [], wake: () => {}, error: undefined };
    return {
      submit: (prompt: Tokens, options?: SubmitOptions) => {
        const sequence = this.#decoder.submit(prompt, options);
        this.#owners.set(sequence, inbox);
        this.#moved();
        return sequence;
      },
      fork: (from: number, options: ForkOptions) => {
        const sequences = this.#decoder.fork(from, options);
        for (const sequence of sequences) this.#owners.set(sequence, inbox);
        this.#moved();
        return sequences;
      },
      extend: (sequence: number, tokens: Tokens, options?: SegmentOptions) => {
        this.#decoder.extend(sequence, tokens, options);
        this.#moved();
      },
      release: (sequence: number) => {
        this.#owners.delete(sequence);
        inbox.segments = inbox.segments.filter((segment) => segment.sequence !== sequence);
        this.#decoder.release(sequence);
        this.#moved();
      },
      next: (options) => this.#next(inbox, options),
    };
  }

  async #next(inbox: Inbox, { signal }: AbortOptions = {}): Promise<Segment[]> {
    this.#waiting.add(inbox);
    const off = onAbort(signal, () => inbox.wake());
    try {
      for (;;) {
        throwIfAborted(signal);
        const { segments, error } = inbox;
        inbox.segments = [];
        inbox.error = undefined;
        if (segments.length > 0) return segments;
        if (error !== undefined) throw error;
        const woken = new Promise<void>((wake) => {
          inbox.wake = wake;
        });
        if (!this.#pumping) void this.#pump();
        await woken;
      }
    } finally {
      off();
      this.#waiting.delete(inbox);
    }
  }

  /** Hands out what stops, as long as somebody waits. */
  async #pump(): Promise<void> {
    this.#pumping = true;
    try {
      while (this.#waiting.size > 0) {
        const moves = this.#moves;
        const segments = await this.#decoder.next();
        for (const segment of segments) {
          const inbox = this.#owners.get(segment.sequence);
          inbox?.segments.push(segment);
          inbox?.wake();
        }
        // Nothing can go on until somebody submits, extends or releases; unless that happened since the call.
        if (segments.length === 0 && moves === this.#moves) {
          await new Promise<void>((go) => {
            this.#stalled = go;
          });
        }
      }
    } catch (error) {
      for (const inbox of this.#waiting) {
        inbox.error = error;
        inbox.wake();
      }
    } finally {
      this.#pumping = false;
    }
  }

  #moved(): void {
    this.#moves++;
    this.#stalled();
    this.#stalled = () => {};
  }
}

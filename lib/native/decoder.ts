import type { Cancellation } from "./cancellation.js";

/** Temperatures of a distribution, as the engine checks them; 0 of {@link Sampling} is none. @internal */
export const TEMPERATURES = { least: 1e-4, most: 1e4 } as const;

/** The distribution that tokens are drawn from; filters apply in the order temperature, top-k, top-p, min-p. */
export interface Sampling {
  /** Logits are divided by it; 0 takes the likeliest token. From 1e-4 to 1e4. */
  temperature: number;
  /** Only the k likeliest tokens, ties included; 0 is off. */
  topK: number;
  /** Only the likeliest tokens that together have this probability; 1 is off. */
  topP: number;
  /** Only tokens at least this likely relative to the likeliest; 0 is off. */
  minP: number;
}

export interface NativeSegmentOptions {
  sampling: Sampling;
  stops: readonly string[];
  endTokens: readonly number[];
  /** Of this segment; 0: only take the text in. */
  maxNewTokens: number;
}

/** Key of the counter-based generator. */
export interface RandomKey {
  /** 0 to 2^64 - 1. */
  seed: bigint;
  /** 0 to 2^64 - 1. */
  stream: bigint;
}

/**
 * Why a segment ended.
 *
 * - `ready`: the text is taken in, nothing was to be written.
 * - `stop`: a stop string is complete.
 * - `endToken`: one of the end tokens came.
 * - `length`: `maxNewTokens` were written.
 * - `context`: the sequence has reached its `reserve`.
 * - `cancelled`: by the caller; the tokens so far are kept.
 * - `failed`: the engine could not go on; {@link Segment.error} says why.
 */
export type FinishReason = "ready" | "stop" | "endToken" | "length" | "context" | "cancelled" | "failed";

/** What the model wrote until it stopped. */
export interface Segment {
  /** Number of the sequence. */
  sequence: number;
  /** Why it ended. */
  reason: FinishReason;
  /** The token that ended the segment included. */
  tokens: Int32Array;
  /** Of the distribution each token was drawn from; at temperature 0 of the unfiltered one at temperature 1. */
  logProbs: Float32Array;
  /** Index of the stop string that was completed; -1 for none. */
  stopIndex: number;
  /** Bytes of the last token behind the stop string. */
  overhang: number;
  /** Version of the weights that the first token was drawn with. */
  firstVersion: number;
  /** And the last. */
  lastVersion: number;
  /** Why, if the reason is `failed`. */
  error?: string;
}

/** How large a decoder is. */
export interface DecoderOptions {
  /**
   * Tokens that the cache holds. @defaultValue what `maxBatch` sequences of full length need, but at most 1 GiB
   * (or one full sequence, if that is more)
   */
  cacheTokens?: number;
  /** Sequences decoded together, 1 to 65536. @defaultValue 64 */
  maxBatch?: number;
  /** Tokens of prompts that one step takes in at most, beside the sequences that decode. @defaultValue 512 */
  prefillTokens?: number;
}

/** Counters of a decoder, and what its sequences are doing. */
export interface DecoderStats {
  /** Tokens of prompts and extensions run through the model. */
  promptTokens: number;
  /** Tokens not run because a fork shares them. */
  sharedTokens: number;
  /** Tokens run again: the weights changed, or a segment without new text needed the last one's logits. */
  repeatedTokens: number;
  /** Tokens written. */
  generatedTokens: number;
  /** Passes through the model. */
  steps: number;
  /** Cache pages, of 16 tokens, that some sequence holds. */
  pagesUsed: number;
  /** The most so far. */
  pagesPeak: number;
  /** All there are. */
  pagesTotal: number;
  /** Sequences in the batch. */
  running: number;
  /** Sequences that wait for the caller. */
  waiting: number;
  /** Sequences that wait for a place in the batch or for pages. */
  queued: number;
}

export interface NativeDecoder {
  /**
   * See `native/rollout/decoder.h` for the rules. These five only queue, in order, behind what the engine is
   * doing; if it refuses a sequence when its turn comes, `next` reports it as `failed`. `reserve` 0: room for the
   * prompt and `maxNewTokens`.
   */
  submit(prompt: Int32Array, options: NativeSegmentOptions, key: RandomKey, reserve: number): number;
  /** `reserve` 0: that of `sequence`. */
  fork(sequence: number, keys: RandomKey[], options: NativeSegmentOptions, reserve: number): number[];
  /** `sequence` must have stopped, and `next` have said so. */
  extend(sequence: number, tokens: Int32Array, options: NativeSegmentOptions): void;
  cancel(sequence: number): void;
  release(sequence: number): void;
  /**
   * Resolves with the segments finished since the last call, at least one; with an empty array when nothing
   * can go on without the caller: nothing is running, and what is queued waits for pages that waiting
   * sequences hold. One call at a time. Rejects with what made a step of the engine fail; the step changed
   * nothing and the next call tries again.
   */
  next(cancellation?: Cancellation): Promise<Segment[]>;
  stats(): DecoderStats;
  readonly bytes: number;
  dispose(): void;
}

/**
 * The addon's classes as TypeScript sees them, in this file and in those that it imports. Nothing outside `lib/native`
 * and `lib/policy` uses what begins with `Native`; a shape that is public as well is written down here once, and those
 * files of `lib/policy` that give it to the public pass it on.
 *
 * Every array handed over is copied before the call returns, so the caller may reuse or transfer it. Wrong
 * arguments throw at once where they can be told at once, functions that return promises included; errors are
 * plain `Error`s with a `code`. `call.ts` beside this file turns both into a rejection with a `HindsearchError`,
 * and an `AbortSignal` into a {@link Cancellation}.
 */
import type { Cancellation } from "./cancellation.js";
import type { DecoderOptions, NativeDecoder, Sampling } from "./decoder.js";
import type { ComputeType, NativeModel, NativeModelConfig, TensorSource } from "./model.js";

/** Memory of the engine: weights and what is made of them, caches, buffers; the same for all threads of the process. */
export interface MemoryUse {
  /** Held now, in bytes. */
  bytes: number;
  /** The most so far. */
  peakBytes: number;
  /**
   * Part of `bytes` that belongs to nothing: buffers of passes that are over, kept for the next, at most 1 GiB. They are
   * freed when the last policy is gone, or when there is no memory otherwise.
   */
  keptBytes: number;
}

/** What the binary exports. */
export interface Addon {
  readonly version: string;
  /** e.g. "avx512-bf16". */
  readonly instructionSet: string;
  threads(): number;
  setThreads(count: number): void;
  memory(): MemoryUse;
  initialize(
    config: NativeModelConfig,
    compute: ComputeType,
    seed: bigint,
    standardDeviation: number,
  ): Promise<NativeModel>;
  load(
    config: NativeModelConfig,
    compute: ComputeType,
    tensors: TensorSource[],
    cancellation?: Cancellation,
  ): Promise<NativeModel>;
  /** The decoder shares ownership of the model: it works on after the model's `dispose`. */
  createDecoder(
    model: NativeModel,
    options: Required<DecoderOptions>,
    tokenBytes: { bytes: Uint8Array; offsets: Uint32Array },
  ): Promise<NativeDecoder>;
  createCancellation(): Cancellation;
  /** Probabilities after the sampling filters; for tests and tools. */
  filterProbabilities(logits: Float32Array, sampling: Sampling): Float32Array;
}

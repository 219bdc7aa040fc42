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
   * Part of `bytes` that belongs to nothing: buffers of passes that are over, kept for the next. On the CPU at most
   * 1 GiB, freed when the last policy is gone or when there is no memory otherwise; on a GPU what the largest pass took,
   * freed when there is no memory otherwise.
   */
  keptBytes: number;
}

/** What can compute: the processor, or a GPU of NVIDIA. */
export type DeviceName = "cpu" | "cuda";

/** What a device is and whether it can be used. */
export interface DeviceInfo {
  /** Whether it can be used. */
  available: boolean;
  /** What it is and what computes on it, e.g. `avx512-bf16`, or a GPU's name with driver and cuBLAS. */
  description: string;
  /** Why it cannot be used, and what to do. */
  reason?: string;
  /** Memory of its own in bytes; 0: it uses the machine's. */
  totalBytes: number;
  /** What of that no process has taken. */
  freeBytes: number;
}

/** What the binary exports. */
export interface Addon {
  readonly version: string;
  /** e.g. "avx512-bf16". */
  readonly instructionSet: string;
  threads(): number;
  setThreads(count: number): void;
  memory(): MemoryUse;
  /** Never rejects for want of a device: that is an answer. */
  device(): Promise<DeviceInfo>;
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

/** A model and the addon that made it: decoders and cancellations for it are made there too. */
export interface MadeModel {
  native: NativeModel;
  addon: Addon;
}

import type { AbortOptions } from "../abort.js";
import type { DeviceName } from "../native/addon.js";
import type { StorageType } from "../native/model.js";
import type { ObjectiveMetrics } from "../native/objective.js";
import type { Mask, Tokens } from "./batch.js";
import type { JsonObject } from "./json-file.js";

export type { DeviceInfo, DeviceName } from "../native/addon.js";
export type { DecoderOptions } from "../native/decoder.js";
export type { ForwardBackwardOptions, ScoreOptions, StepOptions, StepResult } from "../native/model.js";
export type { ObjectiveMetrics } from "../native/objective.js";

/**
 * What matrix products are computed in. `f32`: float32. `bf16`: operands rounded to bfloat16, sums in float32; master
 * weights, gradients and moments stay float32. `auto`: `bf16` on a GPU and where the processor has instructions for it,
 * else `f32`.
 */
export type Compute = "auto" | "f32" | "bf16";

/**
 * What computes. `cpu`: the processor. `cuda`: the first GPU that the CUDA driver shows (`CUDA_VISIBLE_DEVICES` chooses),
 * or an error. `auto`: that GPU where it can be used, else the processor, and a warning says why.
 *
 * The default is `cpu` and not `auto`, so that the same program gives the same numbers wherever it runs: those of two
 * devices agree within rounding alone.
 */
export type Device = DeviceName | "auto";

/** Where a policy computes. */
export interface ComputeOptions {
  /** @defaultValue `"cpu"` */
  device?: Device;
  /** @defaultValue `"auto"` */
  compute?: Compute;
}

/** Options of everything that allocates much. */
export interface MemoryOptions {
  /**
   * Bytes that this process may take in all. What would exceed them is refused with `OUT_OF_MEMORY` before anything is
   * allocated; `null`: nothing is refused. @defaultValue what it has now and what the machine, or the process's control
   * group, still has
   */
  memoryLimit?: number | null;
}

/** Options of {@link Policy.load}. */
export interface LoadOptions extends AbortOptions, ComputeOptions, MemoryOptions {}

/** The contents of a tokenizer's files. */
export interface TokenizerFiles {
  /** `tokenizer.json`. */
  json: JsonObject;
  /** `tokenizer_config.json`. @defaultValue none */
  config?: JsonObject;
  /** `chat_template.jinja`. @defaultValue the config's `chat_template`, if any */
  chatTemplate?: string;
}

/** Options of {@link Policy.initialize}. */
export interface InitializeOptions extends ComputeOptions, MemoryOptions {
  /** A Hugging Face `config.json` of a supported family. */
  config: JsonObject;
  /** @defaultValue none; the policy then takes and gives token ids alone */
  tokenizer?: TokenizerFiles;
  /** Whole, 0 to 2^64 - 1. Same seed, same weights. @defaultValue 0 */
  seed?: bigint | number;
  /** Of the normal distribution that matrices are drawn from. @defaultValue the config's `initializer_range`, or 0.02 */
  standardDeviation?: number;
}

/** A sequence to {@link Policy.score}. */
export interface SequenceToScore {
  /** Prompt and everything after it. */
  tokens: Tokens;
  /** First token to score, at least 1: nothing predicts the first token of a sequence. @defaultValue 1 */
  first?: number;
  /**
   * One entry per token; 0 leaves out a token from `first` on. What is behind the last token wanted is not run at all,
   * and the vocabulary head runs for wanted tokens alone. @defaultValue no token is left out
   */
  mask?: Mask;
}

/** One entry per token of the sequence; 0 where it is not scored. */
export interface ScoredSequence {
  /** Natural logarithm of the probability of each token given those before it. */
  logProbs: Float32Array;
  /** Entropy in nats of the distribution that each token was predicted with; empty if not asked for. */
  entropies: Float32Array;
}

/** What {@link Policy.forwardBackward} found. */
export interface ObjectiveResult extends ObjectiveMetrics {
  /** Per sequence the log-probs of its tokens, 0 where no term looks. */
  logProbs: Float32Array[];
}

/** Options of {@link Policy.save}. */
export interface SaveOptions extends AbortOptions {
  /** What to store all weights as. @defaultValue what each was stored as when it was loaded; f32 if it was not */
  dtype?: StorageType;
}

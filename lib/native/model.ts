import type { AbortOptions } from "../abort.js";
import type { Cancellation } from "./cancellation.js";
import type { BatchTotals, NativeObjective, NativeObjectiveResult } from "./objective.js";

/** Sizes and switches of a decoder. */
export interface NativeModelConfig {
  /** Width of the hidden states. */
  hidden: number;
  /** Decoder layers. */
  layers: number;
  /** Query heads. */
  heads: number;
  /** Key and value heads; divides `heads`. */
  kvHeads: number;
  /** Width of a head, even. */
  headDim: number;
  /** Width of the feed-forward layers. */
  intermediate: number;
  /** Rows of the embedding. */
  vocabulary: number;
  /** Ids the tokenizer knows; embedding rows beyond do not exist for sampling and scoring. */
  tokenLimit: number;
  /** Tokens of the longest sequence. */
  maxPositions: number;
  /** Added to the mean square in RMSNorm. */
  rmsEpsilon: number;
  /** Base of the rotary embedding. */
  ropeTheta: number;
  /** Frequency scaling of Llama 3; `null` for none. */
  ropeScaling: null | {
    /** How much longer sequences become. */
    factor: number;
    /** Wave lengths above `originalPositions` divided by this are scaled in full. */
    lowFrequencyFactor: number;
    /** Those below `originalPositions` divided by this are left alone. */
    highFrequencyFactor: number;
    /** Positions of the training before. */
    originalPositions: number;
  };
  /** Whether the output head is the input embedding. */
  tied: boolean;
  /** Whether queries, keys and values have a bias (Qwen2). */
  qkvBias: boolean;
  /** Whether every head of queries and keys is normalised (Qwen3). */
  qkNorm: boolean;
}

/** What matrix products are computed in; sums are float32 in both. */
export type ComputeType = "f32" | "bf16";

/** What numbers are stored as in a file. */
export type StorageType = "f32" | "f16" | "bf16";

/** A parameter of a model under its Hugging Face name. */
export interface ModelTensor {
  /** E.g. `model.layers.0.self_attn.q_proj.weight`. */
  name: string;
  /** `[out, in]` of a matrix, `[width]` of a bias or norm. */
  shape: number[];
}

/** Where one tensor's bytes lie. */
export interface TensorSource {
  name: string;
  path: string;
  /** Bytes from the start of the file. */
  offset: number;
  bytes: number;
  type: StorageType;
  shape: number[];
}

/** Equal-shaped stores of a model: master weights and AdamW moments. */
export type Arena = "weights" | "firstMoments" | "secondMoments";

export interface TensorSink {
  name: string;
  type: StorageType;
  arena: Arena;
}

/** B sequences one after the other: sequence b is tokens[offsets[b] .. offsets[b + 1]). */
export interface PackedSequences {
  tokens: Int32Array;
  offsets: Int32Array;
}

/** How tokens are scored. */
export interface ScoreOptions extends AbortOptions {
  /** Of the distribution, from 1e-4 to 1e4. @defaultValue 1 */
  temperature?: number;
  /** Also compute entropies. @defaultValue false */
  entropy?: boolean;
  /** Sequences run together up to this many tokens; no result depends on it. @defaultValue 4096 */
  microBatchTokens?: number;
}

/** {@link ScoreOptions} without defaults. */
export interface NativeScoreOptions extends Required<Omit<ScoreOptions, "signal">> {
  /** Per sequence: first token index to score, at least 1. */
  first: Int32Array;
  /** Aligned with the packed tokens: 0 leaves a token out. Without it none is left out. */
  mask?: Uint8Array;
}

/** Aligned with the packed tokens; 0 where not scored. */
export interface NativeScore {
  logProbs: Float32Array;
  /** Empty when not asked for. */
  entropies: Float32Array;
}

/** How an objective is computed. */
export interface ForwardBackwardOptions extends AbortOptions {
  /** The temperature that the tokens were sampled with, from 1e-4 to 1e4. @defaultValue 1 */
  temperature?: number;
  /** Keep one tensor per layer and compute the rest again: less memory, a third more time. @defaultValue true */
  checkpointActivations?: boolean;
  /** Sequences run together up to this many tokens; loss and gradient do not depend on it beyond rounding. @defaultValue 4096 */
  microBatchTokens?: number;
  /** Counts of the whole batch when this call is one part of it. @defaultValue counted in this call */
  totals?: BatchTotals;
}

/** {@link ForwardBackwardOptions} without defaults; the totals travel with the objective. */
export type NativeTrainOptions = Required<Omit<ForwardBackwardOptions, "totals" | "signal">>;

/** One update by AdamW with decoupled weight decay (arXiv:1711.05101). */
export interface StepOptions {
  /** 0 or more. */
  learningRate: number;
  /** Decay of the first moments, in [0, 1). @defaultValue 0.9 */
  beta1?: number;
  /** Decay of the second moments, in [0, 1). @defaultValue 0.999 */
  beta2?: number;
  /** Above 0. @defaultValue 1e-8 */
  epsilon?: number;
  /** Applied to every parameter. @defaultValue 0.01 */
  weightDecay?: number;
  /** Gradients with a larger global norm are scaled down to it; 0: off. @defaultValue 1 */
  maxGradientNorm?: number;
}

/** What an update did. */
export interface StepResult {
  /** Global norm of the gradients before clipping. */
  gradientNorm: number;
  /** The norm was not finite: weights and moments are as before, the gradients are dropped. */
  skipped: boolean;
  /** Updates made so far. */
  step: number;
}

export interface NativeModel {
  readonly frozen: boolean;
  readonly version: number;
  readonly bytes: number;
  readonly compute: ComputeType;
  /** Name, shape and size of every parameter, in arena order. */
  readonly parameters: readonly (ModelTensor & { size: number })[];
  snapshot(): Promise<NativeModel>;
  score(
    sequences: PackedSequences,
    options: NativeScoreOptions,
    cancellation?: Cancellation,
  ): Promise<NativeScore>;
  forwardBackward(
    sequences: PackedSequences,
    objective: NativeObjective,
    options: NativeTrainOptions,
    cancellation?: Cancellation,
  ): Promise<NativeObjectiveResult>;
  gradientNorm(): Promise<number>;
  zeroGradients(): Promise<void>;
  step(options: Required<StepOptions>): Promise<StepResult>;
  weight(name: string): Promise<Float32Array>;
  gradient(name: string): Promise<Float32Array>;
  /** All logits [tokens, tokenLimit]; for inspection of short inputs. */
  logits(sequences: PackedSequences): Promise<Float32Array>;
  save(path: string, header: Uint8Array, tensors: TensorSink[], cancellation?: Cancellation): Promise<void>;
  loadArena(arena: Arena, tensors: TensorSource[], cancellation?: Cancellation): Promise<void>;
  readonly optimizerStep: number;
  setOptimizerStep(step: number): Promise<void>;
  /** Frees the memory once running calls are done; later calls reject with DISPOSED. Idempotent. */
  dispose(): void;
}

/**
 * The addon's classes as TypeScript sees them. Nothing outside `lib/native` and `lib/policy` uses them.
 *
 * Every array handed over is copied before the call returns, so the caller may reuse or transfer it. Wrong
 * arguments throw at once where they can be told at once, functions that return promises included; errors are
 * plain `Error`s with a `code`. `call.ts` beside this file turns both into a rejection with a `HindsearchError`,
 * and an `AbortSignal` into a {@link Cancellation}.
 */

/** Ends the call it is handed to, which then rejects with ABORTED; at once if the engine has not begun it. */
export interface Cancellation {
  cancel(): void;
}

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

export interface NativeScoreOptions {
  temperature: number;
  /** Per sequence: first token index to score, at least 1. */
  first: Int32Array;
  entropy: boolean;
  microBatchTokens: number;
}

/** Aligned with the packed tokens; 0 where not scored. */
export interface NativeScore {
  logProbs: Float32Array;
  /** Empty when not asked for. */
  entropies: Float32Array;
}

/** Mirrors `native/objective/objective.h`; terms left out are off. */
export interface NativeObjective {
  policy?: {
    weight: number;
    clipLow: number;
    clipHigh: number;
    /** 0: off. */
    dualClip: number;
    aggregation: "token-mean" | "sequence-mean-token-mean" | "sequence-sum" | "fixed-length";
    fixedLength: number;
  };
  kl?: {
    weight: number;
    estimator: "k1" | "k2" | "k3";
    /** 0: off. */
    maxValue: number;
  };
  distill?: {
    weight: number;
    clampLow: number;
    clampHigh: number;
    detach: boolean;
    normalizer: "distill-tokens" | "policy-tokens" | "sequences" | "fixed";
    fixed: number;
  };
  crossEntropy?: { weight: number };
  policyMask?: Uint8Array;
  distillMask?: Uint8Array;
  oldLogProbs?: Float32Array;
  referenceLogProbs?: Float32Array;
  teacherLogProbs?: Float32Array;
  advantages?: Float32Array;
  weights?: Float32Array;
  /** Counts of the global batch when this call is one part of it; left out: counted here. */
  totals?: {
    policyTokens: number;
    policySequences: number;
    sequences: number;
    distillTokens: number;
    distillSequences: number;
    weight: number;
  };
}

export interface NativeTrainOptions {
  temperature: number;
  checkpointActivations: boolean;
  microBatchTokens: number;
}

export interface NativeObjectiveResult {
  loss: number;
  policyLoss: number;
  klLoss: number;
  distillLoss: number;
  crossEntropy: number;
  policyTokens: number;
  distillTokens: number;
  clipFractionLow: number;
  clipFractionHigh: number;
  dualClipFraction: number;
  ratioMean: number;
  ratioMax: number;
  logRatioMaxAbs: number;
  ratioClamped: number;
  klClamped: number;
  /** The student's, aligned with the packed tokens; 0 where not needed. */
  logProbs: Float32Array;
}

export interface NativeOptimizerOptions {
  learningRate: number;
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  /** 0: no clipping. */
  maxGradientNorm: number;
}

export interface NativeOptimizerResult {
  gradientNorm: number;
  skipped: boolean;
  step: number;
}

export interface NativeModel {
  readonly frozen: boolean;
  readonly version: number;
  readonly bytes: number;
  readonly compute: ComputeType;
  /** Name, shape and size of every parameter, in arena order. */
  readonly parameters: readonly { name: string; shape: number[]; size: number }[];
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
  step(options: NativeOptimizerOptions): Promise<NativeOptimizerResult>;
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

export interface NativeSampling {
  /** 0: greedy. */
  temperature: number;
  /** 0: off. */
  topK: number;
  /** 1: off. */
  topP: number;
  /** 0: off. */
  minP: number;
}

export interface NativeSegmentOptions {
  sampling: NativeSampling;
  stops: readonly string[];
  endTokens: readonly number[];
  /** Of this segment; 0: only take the text in. */
  maxNewTokens: number;
}

/** seed and stream of the counter-based generator, both 64 bit. */
export interface RandomKey {
  seed: bigint;
  stream: bigint;
}

export type FinishReason = "ready" | "stop" | "endToken" | "length" | "context" | "cancelled" | "failed";

export interface SegmentResult {
  sequence: number;
  reason: FinishReason;
  tokens: Int32Array;
  /** Of the distribution each token was drawn from. */
  logProbs: Float32Array;
  /** Which stop string, -1 for none. */
  stopIndex: number;
  /** Bytes of the last token behind the stop string. */
  overhang: number;
  firstVersion: number;
  lastVersion: number;
  /** Why, when reason is `failed`. */
  error?: string;
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
  next(cancellation?: Cancellation): Promise<SegmentResult[]>;
  stats(): DecoderStats;
  readonly bytes: number;
  dispose(): void;
}

export interface Addon {
  readonly version: string;
  /** e.g. "avx512-bf16". */
  readonly instructionSet: string;
  threads(): number;
  setThreads(count: number): void;
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
    options: { cacheTokens: number; maxBatch: number; prefillTokens: number },
    tokenBytes: { bytes: Uint8Array; offsets: Uint32Array },
  ): Promise<NativeDecoder>;
  createCancellation(): Cancellation;
  /** Probabilities after the sampling filters; for tests and tools. */
  filterProbabilities(logits: Float32Array, sampling: NativeSampling): Float32Array;
}

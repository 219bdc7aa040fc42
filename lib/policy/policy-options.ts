import type { AbortOptions } from "../abort.js";
import type { StorageType } from "../native/addon.js";
import type { BatchTotals, Tokens } from "./batch.js";
import type { JsonObject } from "./json-file.js";
import type { Policy } from "./policy.js";

/**
 * What matrix products are computed in. `f32`: float32. `bf16`: operands rounded to bfloat16, sums in float32; master
 * weights, gradients and moments stay float32. `auto`: `bf16` where the processor has instructions for it, else `f32`.
 */
export type Compute = "auto" | "f32" | "bf16";

/** Options of {@link Policy.load}. */
export interface LoadOptions extends AbortOptions {
  /** @defaultValue `"auto"` */
  compute?: Compute;
}

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
export interface InitializeOptions {
  /** A Hugging Face `config.json` of a supported family. */
  config: JsonObject;
  /** @defaultValue none; the policy then takes and gives token ids alone */
  tokenizer?: TokenizerFiles;
  /** Whole, 0 to 2^64 - 1. Same seed, same weights. @defaultValue 0 */
  seed?: bigint | number;
  /** Of the normal distribution that matrices are drawn from. @defaultValue the config's `initializer_range`, or 0.02 */
  standardDeviation?: number;
  /** @defaultValue `"auto"` */
  compute?: Compute;
}

/** A sequence to {@link Policy.score}. */
export interface SequenceToScore {
  /** Prompt and everything after it. */
  tokens: Tokens;
  /** First token to score, at least 1: nothing predicts the first token of a sequence. @defaultValue 1 */
  first?: number;
}

/** Options of {@link Policy.score}. */
export interface ScoreOptions extends AbortOptions {
  /** Of the distribution, from 1e-4 to 1e4. @defaultValue 1 */
  temperature?: number;
  /** Also compute entropies. @defaultValue false */
  entropy?: boolean;
  /** Sequences run together up to this many tokens; no result depends on it. @defaultValue 4096 */
  microBatchTokens?: number;
}

/** One entry per token of the sequence; 0 before {@link SequenceToScore.first}. */
export interface ScoredSequence {
  /** Natural logarithm of the probability of each token given those before it. */
  logProbs: Float32Array;
  /** Entropy in nats of the distribution that each token was predicted with; empty if not asked for. */
  entropies: Float32Array;
}

/** Options of {@link Policy.forwardBackward}. */
export interface ForwardBackwardOptions extends AbortOptions {
  /** The temperature that the tokens were sampled with. @defaultValue 1 */
  temperature?: number;
  /** Keep one tensor per layer and compute the rest again: less memory, a third more time. @defaultValue true */
  checkpointActivations?: boolean;
  /** Sequences run together up to this many tokens; loss and gradient do not depend on it beyond rounding. @defaultValue 4096 */
  microBatchTokens?: number;
  /** Counts of the whole batch when this call is one part of it. @defaultValue counted in this call */
  totals?: BatchTotals;
}

/** What {@link Policy.forwardBackward} found. Losses of the terms are before their weights. */
export interface ObjectiveResult {
  /** The sum of all terms, each times its weight. */
  loss: number;
  /** The clipped policy gradient. */
  policyLoss: number;
  /** Value of the KL estimator, aggregated like the policy term. */
  klLoss: number;
  /** The HindSearch term. */
  distillLoss: number;
  /** Token cross-entropy. */
  crossEntropy: number;
  /** Policy tokens of this call, whatever the totals say. */
  policyTokens: number;
  /** Distilled tokens of this call. */
  distillTokens: number;
  /** Share of the policy tokens with A < 0 and a ratio below `1 - clipLow`. */
  clipFractionLow: number;
  /** Share of the policy tokens with A > 0 and a ratio above `1 + clipHigh`. */
  clipFractionHigh: number;
  /** Share of the policy tokens that the dual clip bounds. */
  dualClipFraction: number;
  /** Mean of the ratio to the old log-probs. */
  ratioMean: number;
  /** Its maximum. */
  ratioMax: number;
  /** Largest difference between log-prob and old log-prob. */
  logRatioMaxAbs: number;
  /** Tokens whose log ratio was beyond +-20. */
  ratioClamped: number;
  /** Tokens whose `k3` was continued by its tangent or cut off. */
  klClamped: number;
  /** Per sequence the log-probs of its tokens, 0 where no term looks. */
  logProbs: Float32Array[];
}

/** Options of {@link Policy.step}: AdamW with decoupled weight decay (arXiv:1711.05101). */
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

/** What {@link Policy.step} did. */
export interface StepResult {
  /** Global norm of the gradients before clipping. */
  gradientNorm: number;
  /** The norm was not finite: weights and moments are as before, the gradients are dropped. */
  skipped: boolean;
  /** Updates made so far. */
  step: number;
}

/** Options of {@link Policy.createDecoder}. */
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

/** Options of {@link Policy.save}. */
export interface SaveOptions extends AbortOptions {
  /** What to store all weights as. @defaultValue what each was stored as when it was loaded; f32 if it was not */
  dtype?: StorageType;
}

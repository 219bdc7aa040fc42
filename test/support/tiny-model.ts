import type { Addon } from "../../lib/native/addon.js";
import type { NativeModel, NativeModelConfig, NativeTrainOptions } from "../../lib/native/model.js";

/** A decoder small enough to build in a millisecond. Grouped queries, and a vocabulary wider than the tokenizer's. */
export const tinyConfig: NativeModelConfig = {
  hidden: 64,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  intermediate: 128,
  vocabulary: 128,
  tokenLimit: 120,
  maxPositions: 4096,
  rmsEpsilon: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: null,
  tied: true,
  qkvBias: true,
  qkNorm: false,
};

/** Training options without surprises. */
export const plainTraining: NativeTrainOptions = {
  temperature: 1,
  checkpointActivations: false,
  microBatchTokens: 4096,
};

/** A model with random weights. */
export function tinyModel(addon: Addon, overrides: Partial<NativeModelConfig> = {}): Promise<NativeModel> {
  return addon.initialize({ ...tinyConfig, ...overrides }, "f32", 1n, 0.02);
}

/** B sequences of T tokens each, packed; the ids repeat with a period that no power of two divides. */
export function packed(sequences: number, tokens: number) {
  return {
    tokens: Int32Array.from({ length: sequences * tokens }, (_, index) => (index * 37 + 11) % 113),
    offsets: Int32Array.from({ length: sequences + 1 }, (_, index) => index * tokens),
  };
}

/** The same names for a script that runs in a process of its own; see {@link BuiltPackage.run}. */
export const tinyModelScript = `
  import { loadAddon } from "./dist/native/load.js";
  const tinyConfig = ${JSON.stringify(tinyConfig)};
  const plainTraining = ${JSON.stringify(plainTraining)};
  const tinyModel = (overrides = {}) => loadAddon().initialize({ ...tinyConfig, ...overrides }, "f32", 1n, 0.02);
  ${packed.toString()}
`;

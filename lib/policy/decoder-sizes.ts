import type { DecoderOptions } from "../native/decoder.js";
import type { NativeModelConfig } from "../native/model.js";

const MOST_CACHE_BYTES = 2 ** 30;

/**
 * Fills in the defaults.
 *
 * @internal
 */
export function decoderSizes(
  config: Readonly<NativeModelConfig>,
  { maxBatch = 64, prefillTokens = 512, cacheTokens }: DecoderOptions,
): Required<DecoderOptions> {
  return { cacheTokens: cacheTokens ?? defaultCacheTokens(config, maxBatch), maxBatch, prefillTokens };
}

function defaultCacheTokens(config: Readonly<NativeModelConfig>, maxBatch: number): number {
  const { layers, kvHeads, headDim, maxPositions } = config;
  const tokenBytes = 2 * layers * kvHeads * headDim * Float32Array.BYTES_PER_ELEMENT;
  const affordable = Math.max(maxPositions, Math.floor(MOST_CACHE_BYTES / tokenBytes));
  return Math.min(maxBatch * maxPositions, affordable);
}

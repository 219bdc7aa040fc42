import type { DecoderOptions } from "../../native/decoder.js";
import { cacheNumberBytes, type EngineModel } from "./sizes.js";

const MOST_CACHE_BYTES = 2 ** 30;

/**
 * Fills in the defaults; that of the cache is what memory allows for.
 *
 * @internal
 */
export function decoderSizes(
  model: EngineModel,
  { maxBatch = 64, prefillTokens = 512, cacheTokens }: DecoderOptions,
): Required<DecoderOptions> {
  return { cacheTokens: cacheTokens ?? defaultCacheTokens(model, maxBatch), maxBatch, prefillTokens };
}

function defaultCacheTokens(model: EngineModel, maxBatch: number): number {
  const { layers, kvHeads, headDim, maxPositions } = model.config;
  const tokenBytes = 2 * layers * kvHeads * headDim * cacheNumberBytes(model);
  const affordable = Math.max(maxPositions, Math.floor(MOST_CACHE_BYTES / tokenBytes));
  return Math.min(maxBatch * maxPositions, affordable);
}

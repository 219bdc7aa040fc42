import { HindsearchError } from "../errors.js";
import type { DecoderOptions } from "../native/decoder.js";
import { availableMemory } from "./available-memory.js";
import { decodingParts, loadingParts } from "./memory-estimate.js";
import { type EngineModel, parameterCount } from "./memory-sizes.js";
import { formatBytes, PART_TITLES } from "./memory-table.js";
import type { MemoryPart, PhaseEstimate } from "./memory-types.js";
import type { MemoryOptions } from "./policy-options.js";

/** Something that is about to be allocated. */
export interface MemoryNeed {
  /** Begins a sentence, e.g. `Loading the model`. */
  what: string;
  /** By what it is used for. */
  parts: PhaseEstimate["parts"];
  /** Bytes of the parts that are there already. */
  held: number;
  /** What to change where a part is too large. */
  advice: Partial<Record<MemoryPart, string>>;
}

/** @internal */
export const SMALLER_MODEL = "use a smaller model";

/** Parts below this share of the whole are not worth a change. */
const WORTH_A_CHANGE = 0.05;

/**
 * Refuses what cannot fit.
 *
 * @throws {@link HindsearchError} `OUT_OF_MEMORY` naming what needs how much, what there is and what to change.
 * `INVALID_ARGUMENT` for a limit that is none.
 * @internal
 */
export function requireMemory(
  { what, parts, held, advice }: MemoryNeed,
  memoryLimit: MemoryOptions["memoryLimit"],
): void {
  if (memoryLimit === null) return;
  if (memoryLimit !== undefined && !(memoryLimit > 0)) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `memoryLimit is ${memoryLimit}, expected bytes, more than 0, or null for no limit.`,
    );
  }
  const rss = process.memoryUsage.rss();
  const available = memoryLimit === undefined ? availableMemory() : Math.max(0, memoryLimit - rss);
  const largest = (Object.entries(parts) as [MemoryPart, number][]).sort(([, a], [, b]) => b - a);
  const bytes = largest.reduce((sum, [, size]) => sum + size, 0);
  const needed = Math.max(0, bytes - held);
  // Sizes that are no numbers are for the engine to refuse.
  if (!(needed > available)) return;
  const listed = largest.filter(([, size]) => size >= WORTH_A_CHANGE * bytes);
  const changes = new Set(listed.flatMap(([part]) => advice[part] ?? []));
  if (changes.size === 0) changes.add(SMALLER_MODEL);
  const limit =
    memoryLimit === undefined
      ? "are available"
      : `are left of the memoryLimit of ${formatBytes(memoryLimit)}`;
  throw new HindsearchError(
    "OUT_OF_MEMORY",
    `${what} needs ${formatBytes(bytes)}` +
      `${held > 0 ? `, ${formatBytes(needed)} more than is held now` : ""}; ${formatBytes(available)} ${limit}. ` +
      `Largest parts: ${listed.map(([part, size]) => `${PART_TITLES[part]} ${formatBytes(size)}`).join(", ")}. ` +
      `To need less: ${[...changes].join("; ")}. Nothing was allocated; memoryLimit sets another limit, null none.`,
  );
}

/** Before a model is loaded or initialized. @internal */
export function requireLoading(model: EngineModel, memoryLimit: MemoryOptions["memoryLimit"]): void {
  const parts = loadingParts(model);
  const millions = (parameterCount(model.config) / 1e6).toFixed(1);
  const packed = model.compute === "f32" ? 'compute: "bf16" halves the packed weights' : SMALLER_MODEL;
  const advice = { weights: SMALLER_MODEL, packedWeights: packed };
  requireMemory({ what: `Loading a model of ${millions} M parameters`, parts, held: 0, advice }, memoryLimit);
}

/** Before a decoder is made. @internal */
export function requireDecoder(
  model: EngineModel,
  sizes: Required<DecoderOptions>,
  memoryLimit: MemoryOptions["memoryLimit"],
): void {
  const parts = decodingParts(model, sizes);
  requireMemory({ what: "A decoder", parts, held: 0, advice: decoderAdvice(sizes, "") }, memoryLimit);
}

/** How a decoder gets smaller. @internal */
export function decoderAdvice(
  { cacheTokens, maxBatch, prefillTokens }: Required<DecoderOptions>,
  prefix: string,
): MemoryNeed["advice"] {
  return {
    cache: `lower ${prefix}cacheTokens (${cacheTokens})`,
    decoder: `lower ${prefix}maxBatch (${maxBatch}) or ${prefix}prefillTokens (${prefillTokens})`,
  };
}

import { HindsearchError } from "../../errors.js";
import type { DeviceName } from "../../native/addon.js";
import type { DecoderOptions } from "../../native/decoder.js";
import { loadAddon } from "../../native/load.js";
import { deviceInfo } from "../device.js";
import type { MemoryOptions } from "../policy-options.js";
import { availableMemory } from "./available.js";
import { decodingNeed, loadingNeed } from "./estimate.js";
import type { MemoryPart, PhaseEstimate } from "./report.js";
import { formatBytes, PART_TITLES } from "./report.js";
import { type EngineModel, parameterCount } from "./sizes.js";

/** Something that is about to be allocated. */
export interface MemoryNeed {
  /** Begins a sentence, e.g. `Loading the model`. */
  what: string;
  /** By what it is used for. */
  need: PhaseEstimate;
  /** Bytes of the model's that are there already. @defaultValue 0 */
  held?: number;
  /** What to change where a part is too large. */
  advice: Partial<Record<MemoryPart, string>>;
}

/** @internal */
export const SMALLER_MODEL = "use a smaller model";

/** Parts below this share of the whole are not worth a change. */
const WORTH_A_CHANGE = 0.05;

/**
 * Refuses what cannot fit, on the GPU or in the machine's memory.
 *
 * @throws {@link HindsearchError} `OUT_OF_MEMORY` naming what needs how much, what there is and what to change.
 * `INVALID_ARGUMENT` for a limit that is none.
 * @internal
 */
export async function requireMemory(
  { what, need, held = 0, advice }: MemoryNeed,
  device: DeviceName,
  memoryLimit: MemoryOptions["memoryLimit"],
): Promise<void> {
  if (memoryLimit === null) return;
  if (memoryLimit !== undefined && !(memoryLimit > 0)) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `memoryLimit is ${memoryLimit}, expected bytes, more than 0, or null for no limit.`,
    );
  }
  const { keptBytes } = loadAddon(device).memory();
  const { runtime = 0, ...parts } = need.parts;
  if (need.host === undefined) {
    // The kept buffers that such a pass uses again.
    const { activations = 0, kept = 0 } = parts;
    const there = held + runtime + Math.min(keptBytes, activations + kept);
    requireRoom({ what, parts: need.parts, held: there, advice }, machineRoom(memoryLimit));
    return;
  }
  // CUDA has what it takes itself by the time it is asked what is free.
  requireRoom({ what, parts, held, advice }, await gpuRoom(keptBytes, memoryLimit));
  const beside = need.host.parts;
  requireRoom(
    { what: `${what} beside the GPU`, parts: beside, held: beside.runtime ?? 0, advice },
    machineRoom(memoryLimit),
  );
}

/** Memory that is to be had, and its name in the sentence "5 GiB ...". */
interface Room {
  bytes: number;
  words: string;
  /** Ends the message. */
  ending: string;
}

function machineRoom(memoryLimit: number | undefined): Room {
  const ending = "memoryLimit sets another limit, null none.";
  if (memoryLimit === undefined) return { bytes: availableMemory(), words: "are available", ending };
  const bytes = Math.max(0, memoryLimit - process.memoryUsage.rss());
  return { bytes, words: `are left of the memoryLimit of ${formatBytes(memoryLimit)}`, ending };
}

/** The engine gives all that it keeps back before it fails. */
async function gpuRoom(keptBytes: number, memoryLimit: number | undefined): Promise<Room> {
  const { freeBytes, totalBytes, description } = await deviceInfo("cuda");
  if (totalBytes === 0) return machineRoom(memoryLimit);
  return {
    bytes: freeBytes + keptBytes,
    words: `of ${formatBytes(totalBytes)} are free on the GPU (${description})`,
    ending: "memoryLimit: null tries it all the same.",
  };
}

function requireRoom(
  {
    what,
    parts,
    held,
    advice,
  }: { what: string; parts: PhaseEstimate["parts"]; held: number } & Pick<MemoryNeed, "advice">,
  { bytes: available, words, ending }: Room,
): void {
  const largest = (Object.entries(parts) as [MemoryPart, number][]).sort(([, a], [, b]) => b - a);
  const bytes = largest.reduce((sum, [, size]) => sum + size, 0);
  const needed = Math.max(0, bytes - held);
  // Sizes that are no numbers are for the engine to refuse.
  if (!(needed > available)) return;
  const listed = largest.filter(([, size]) => size >= WORTH_A_CHANGE * bytes);
  const changes = new Set(listed.flatMap(([part]) => advice[part] ?? []));
  if (changes.size === 0) changes.add(SMALLER_MODEL);
  throw new HindsearchError(
    "OUT_OF_MEMORY",
    `${what} needs ${formatBytes(bytes)}` +
      `${held > 0 ? `, ${formatBytes(needed)} more than is held now` : ""}; ${formatBytes(available)} ${words}. ` +
      `Largest parts: ${listed.map(([part, size]) => `${PART_TITLES[part]} ${formatBytes(size)}`).join(", ")}. ` +
      `To need less: ${[...changes].join("; ")}. Nothing was allocated; ${ending}`,
  );
}

/** Before a model is loaded or initialized. @internal */
export function requireLoading(model: EngineModel, memoryLimit: MemoryOptions["memoryLimit"]): Promise<void> {
  const need = loadingNeed(model);
  const millions = (parameterCount(model.config) / 1e6).toFixed(1);
  const packed = model.compute === "f32" ? 'compute: "bf16" halves the packed weights' : SMALLER_MODEL;
  const advice = { weights: SMALLER_MODEL, packedWeights: packed };
  return requireMemory(
    { what: `Loading a model of ${millions} M parameters`, need, advice },
    model.device,
    memoryLimit,
  );
}

/** Before a decoder is made. @internal */
export function requireDecoder(
  model: EngineModel,
  sizes: Required<DecoderOptions>,
  memoryLimit: MemoryOptions["memoryLimit"],
): Promise<void> {
  const need = decodingNeed(model, sizes);
  return requireMemory(
    { what: "A decoder", need, advice: decoderAdvice(sizes, "") },
    model.device,
    memoryLimit,
  );
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

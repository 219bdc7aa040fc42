import { HindsearchError } from "../errors.js";
import { openDevice } from "../policy/device.js";
import { engine } from "../policy/engine.js";
import { availableMemory } from "../policy/memory/available.js";
import { estimateMemory } from "../policy/memory/estimate.js";
import type { MemoryEstimate, MemoryEstimateOptions } from "../policy/memory/report.js";
import type { DeviceInfo } from "../policy/policy-options.js";
import { HINT_TOKENS } from "../training/memory.js";
import { requireCountable } from "../training/settings.js";
import { defined } from "./defined.js";
import { modelConfigOf } from "./open-policy.js";
import type { ReadConfiguration } from "./read.js";

/**
 * Memory that a configured training will need, by part and by phase, without loading the model. A GPU need not be there,
 * unless the configuration leaves it to that.
 *
 * @throws {@link HindsearchError} What `estimateMemory` throws, and what reading `config.json` throws.
 */
export async function estimateConfiguration(configuration: ReadConfiguration): Promise<MemoryEstimate> {
  const { model, training, protocol, judge } = configuration.values;
  requireCountable(training);
  const config = await modelConfigOf(configuration);
  const { kl, distillation, measureEvery, questionsPerStep, groupSize } = training;
  const distills = judge.kind !== "none" && distillation !== false;
  const { maxTokens } = protocol;
  const positions = config.max_position_embeddings;
  const most =
    (distillation || undefined)?.maxTeacherTokens ?? (typeof positions === "number" ? positions : maxTokens);
  const options: MemoryEstimateOptions = defined({
    device: model.device === "auto" ? (await openDevice("auto")).device : model.device,
    compute: model.compute,
    threads: model.threads,
    frozenCopy: kl !== false || distills || measureEvery > 0,
    decoder: defined(training.decoder),
    checkpointActivations: training.checkpointActivations,
    longestSequence: maxTokens,
    longestScored: distills ? Math.max(maxTokens, Math.min(most, maxTokens + HINT_TOKENS)) : maxTokens,
    sequences: questionsPerStep * groupSize,
    microBatchTokens: training.microBatchTokens,
  });
  return estimateMemory(config, options);
}

/** Memory that a training needs, and whether it suffices. */
export interface MemoryRoom {
  name: string;
  /** Bytes; `null` where that cannot be known. */
  available: number | null;
  /** Why not. */
  reason?: string;
  fits: boolean;
}

/** What there is of each memory that an estimate is about, the GPU's first. */
export async function memoryRooms({ settings, peak, phases }: MemoryEstimate): Promise<MemoryRoom[]> {
  const machine = (bytes: number): MemoryRoom => {
    const available = availableMemory();
    return { name: "Available", available, fits: bytes <= available };
  };
  if (settings.device === "cpu") return [machine(peak.bytes)];
  const host = Math.max(...Object.values(phases).map((phase) => phase.host?.bytes ?? 0));
  // CUDA is awake when it is asked what is free, and has what it takes itself.
  return [await gpuRoom(peak.bytes - (phases[peak.phase]?.parts.runtime ?? 0)), machine(host)];
}

async function gpuRoom(bytes: number): Promise<MemoryRoom> {
  const none = (reason: string) => ({ name: "GPU", available: null, reason, fits: false });
  let found: DeviceInfo;
  try {
    found = await engine.device("cuda");
  } catch (error) {
    if (error instanceof HindsearchError) return none(error.message);
    throw error;
  }
  const { available, reason = "it cannot be used", description, freeBytes } = found;
  if (!available) return none(reason);
  return { name: `Free on the GPU (${description})`, available: freeBytes, fits: bytes <= freeBytes };
}

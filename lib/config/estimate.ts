import { openDevice } from "../policy/device.js";
import { estimateMemory } from "../policy/memory-estimate.js";
import type { MemoryEstimate, MemoryEstimateOptions } from "../policy/memory-report.js";
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

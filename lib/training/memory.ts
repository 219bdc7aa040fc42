import { estimateMemory } from "../policy/memory/estimate.js";
import { decoderAdvice, requireMemory, SMALLER_MODEL } from "../policy/memory/limit.js";
import type {
  MemoryEstimate,
  MemoryEstimateOptions,
  MemoryPhase,
  PhaseEstimate,
} from "../policy/memory/report.js";
import type { Policy } from "../policy/policy.js";
import type { MemoryOptions } from "../policy/policy-options.js";
import type { HindSearchOptions } from "./options.js";
import { needsTeacher, type TrainerSettings } from "./settings.js";

/** A policy, as far as its memory depends on it. */
type HeldModel = Pick<Policy, "config" | "compute" | "device" | "bytes">;

/** More than a judge's critique, which is cut at 128 tokens unless it is told otherwise, and what frames it. */
export const HINT_TOKENS = 512;

const PHASES: Readonly<Record<MemoryPhase, string>> = {
  load: "loading the model",
  rollout: "the rollout",
  scoring: "scoring by reference and teacher",
  update: "the update",
};

/** What a run will need. */
export function trainerEstimate(
  { policy, decoder }: Pick<HindSearchOptions, "policy" | "decoder">,
  settings: TrainerSettings,
): MemoryEstimate {
  const { questionsPerStep, groupSize, microBatchTokens, checkpointActivations, distillation } = settings;
  const { maxTokens } = settings.protocol;
  return estimateMemory(policy, {
    frozenCopy: needsTeacher(settings),
    decoder: decoder ?? {},
    checkpointActivations,
    longestSequence: maxTokens,
    longestScored: distillation
      ? Math.max(maxTokens, Math.min(distillation.maxTeacherTokens, maxTokens + HINT_TOKENS))
      : maxTokens,
    sequences: questionsPerStep * groupSize,
    ...(microBatchTokens !== null && { microBatchTokens }),
  });
}

/** What supervised training on batches like this one will need. */
export function supervisedEstimate(
  policy: HeldModel,
  options: Pick<
    MemoryEstimateOptions,
    "longestSequence" | "sequences" | "checkpointActivations" | "microBatchTokens"
  >,
): MemoryEstimate {
  return estimateMemory(policy, { ...options, frozenCopy: false, decoder: false });
}

/**
 * Refuses a run whose largest phase cannot fit beside what is held already.
 *
 * @throws {@link HindsearchError} `OUT_OF_MEMORY`.
 */
export async function requireTraining(
  policy: HeldModel,
  { peak, phases, settings }: MemoryEstimate,
  memoryLimit: MemoryOptions["memoryLimit"],
): Promise<void> {
  const { decoder, microBatchTokens, checkpointActivations, sequences } = settings;
  const microBatch = `lower microBatchTokens (${microBatchTokens})`;
  const fewer = checkpointActivations ? microBatch : `set checkpointActivations to true; ${microBatch}`;
  await requireMemory(
    {
      what: `Training, at its largest in ${PHASES[peak.phase]},`,
      need: phases[peak.phase] as PhaseEstimate,
      held: policy.bytes,
      advice: {
        ...(decoder && decoderAdvice(decoder, "decoder.")),
        activations: fewer,
        kept: fewer,
        scratch: microBatch,
        trajectories: `lower questionsPerStep or groupSize (${sequences} trajectories a step)`,
        frozenCopy: "do without a frozen copy (kl: false, distillation: false and measureEvery: 0)",
        weights: SMALLER_MODEL,
        gradients: SMALLER_MODEL,
        moments: SMALLER_MODEL,
      },
    },
    policy.device,
    memoryLimit,
  );
}

import type { MadeModel } from "../native/addon.js";
import { callCancellable } from "../native/call.js";
import { packColumns, packMasks, packTokens, type TrainingSequence, toInt32Array, unpack } from "./batch.js";
import { nativeTerms, type Objective } from "./objective.js";
import type {
  ForwardBackwardOptions,
  ObjectiveResult,
  ScoredSequence,
  ScoreOptions,
  SequenceToScore,
} from "./policy-options.js";

/** More makes no product faster, but activations that no cache holds. @internal */
export const MICRO_BATCH_TOKENS = 4096;

/** See {@link Policy.score}. @internal */
export async function score(
  { native, addon }: MadeModel,
  sequences: readonly SequenceToScore[],
  options: ScoreOptions,
): Promise<ScoredSequence[]> {
  const packed = packTokens(sequences);
  const first = toInt32Array(
    sequences.map((sequence) => sequence.first ?? 1),
    "first",
  );
  const mask = packMasks(sequences, packed);
  const { temperature = 1, entropy = false, microBatchTokens = MICRO_BATCH_TOKENS, signal } = options;
  const { logProbs, entropies } = await callCancellable(
    addon,
    (cancellation) =>
      native.score(
        packed,
        { temperature, first, ...(mask && { mask }), entropy, microBatchTokens },
        cancellation,
      ),
    signal,
  );
  const split = {
    logProbs: unpack(logProbs, packed.offsets),
    entropies: unpack(entropies, packed.offsets),
  };
  return sequences.map((_, index) => ({
    logProbs: split.logProbs[index] as Float32Array,
    entropies: split.entropies[index] as Float32Array,
  }));
}

/** See {@link Policy.forwardBackward}. @internal */
export async function forwardBackward(
  { native, addon }: MadeModel,
  batch: readonly TrainingSequence[],
  objective: Objective,
  options: ForwardBackwardOptions,
): Promise<ObjectiveResult> {
  const packed = packTokens(batch);
  const columns = {
    ...nativeTerms(objective),
    ...packColumns(batch, packed, objective),
    ...(options.totals && { totals: options.totals }),
  };
  const {
    temperature = 1,
    checkpointActivations = true,
    microBatchTokens = MICRO_BATCH_TOKENS,
    signal,
  } = options;
  const train = { temperature, checkpointActivations, microBatchTokens };
  const result = await callCancellable(
    addon,
    (cancellation) => native.forwardBackward(packed, columns, train, cancellation),
    signal,
  );
  return { ...result, logProbs: unpack(result.logProbs, packed.offsets) };
}

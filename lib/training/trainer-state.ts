import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AbortOptions } from "../abort.js";
import type { SamplerCursor } from "../data/sampler.js";
import { HindsearchError } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import type { CheckpointFolder } from "../runs/checkpoints.js";

/** Where a training run stands, beside weights and moments. Random numbers are counted, so there is no other state. */
export interface TrainerState {
  /** Training steps done. */
  step: number;
  /** Of the question sampler. */
  cursor: SamplerCursor;
  /** Updates skipped in a row for a gradient that is not finite. */
  skippedInARow: number;
  /** What tells the initial policy from others: its log-probs of a fixed text; `null` where no copy of it is kept. */
  fingerprint: number[] | null;
  /** What the judge needs back; `null` if it needs nothing. */
  judge: unknown;
  /** What the retriever needs back; likewise. */
  retriever: unknown;
}

const VERSION = 1;
const OPTIMIZER = "optimizer.safetensors";

/**
 * Writes a checkpoint: `model/`, a folder that transformers and vLLM can load; `optimizer.safetensors`, master weights
 * and moments; `trainer.json`.
 */
export async function saveTrainer(
  folder: string,
  policy: Policy,
  state: TrainerState,
  options: AbortOptions,
): Promise<void> {
  await policy.save(join(folder, "model"), options);
  await policy.saveOptimizer(join(folder, OPTIMIZER), options);
  await writeFile(
    join(folder, "trainer.json"),
    `${JSON.stringify({ version: VERSION, ...state }, null, 2)}\n`,
  );
}

/**
 * Reads where a checkpoint's run stands; weights and moments are {@link loadWeights}'s.
 *
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if the state is damaged.
 */
export async function readTrainerState({ step: steps, folder }: CheckpointFolder): Promise<TrainerState> {
  const file = join(folder, "trainer.json");
  let state: Partial<TrainerState & { version: number }> | null;
  try {
    state = JSON.parse(await readFile(file, "utf8"));
  } catch (cause) {
    throw new HindsearchError("INVALID_CHECKPOINT", `${file} cannot be read as JSON.`, { cause });
  }
  const {
    version,
    step,
    cursor,
    skippedInARow,
    fingerprint = null,
    judge = null,
    retriever = null,
  } = state ?? {};
  if (version !== VERSION || step !== steps || !cursor || !Number.isSafeInteger(skippedInARow)) {
    throw new HindsearchError(
      "INVALID_CHECKPOINT",
      `${file} is not the state of a trainer of version ${VERSION} after ${steps} steps; found version ${version} and ` +
        `step ${step}.`,
    );
  }
  return { step, cursor, skippedInARow: Number(skippedInARow), fingerprint, judge, retriever };
}

/**
 * Reads weights and moments of a checkpoint into a policy.
 *
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if they are damaged or of another model.
 */
export async function loadWeights(
  { folder }: CheckpointFolder,
  policy: Policy,
  options: AbortOptions,
): Promise<void> {
  await policy.loadOptimizer(join(folder, OPTIMIZER), options);
}

/** Tokens of the text by which policies are told apart. */
const PROBE_TOKENS = 32;

/** Log-probs of a fixed text, tokens from all over the vocabulary: another initial policy has others. */
export async function fingerprintOf(policy: Policy): Promise<number[]> {
  const { maxPositions, vocabulary } = policy.config;
  const length = Math.min(PROBE_TOKENS, maxPositions);
  const tokens = Int32Array.from({ length }, (_, i) => Math.floor((i * vocabulary) / length));
  const [scored] = await policy.score([{ tokens }]);
  return Array.from(scored?.logProbs ?? []);
}

/**
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if the run started from another policy than this one.
 */
export function checkFingerprint(stored: number[] | null, found: number[] | null): void {
  if (stored === null || found === null) return;
  if (stored.length === found.length && stored.every((value, i) => value === found[i])) return;
  throw new HindsearchError(
    "INVALID_CHECKPOINT",
    "The policy is not the one that this run started from, so it cannot be its teacher and reference: its log-probs of " +
      "a fixed text differ from those in the checkpoint. To resume, load the initial model with the same compute type; " +
      "the trained weights come from the checkpoint.",
  );
}

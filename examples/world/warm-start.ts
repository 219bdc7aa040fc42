/** The model that reinforcement learning starts from: it imitates a searcher with good and bad habits. */
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  DEMO_HABITS,
  DEMO_MIXTURE,
  Demonstrations,
  Policy,
  SupervisedTrainer,
  worldModel,
  worldProtocol,
} from "hindsearch";

/** Settings of the warm start; its cache is named after them. */
export const WARM_START = {
  seed: 0,
  steps: 2_000,
  batchSize: 64,
  learningRate: {
    kind: "cosine",
    learningRate: 4e-3,
    warmupSteps: 50,
    totalSteps: 2_000,
    minimumRatio: 0.05,
  },
  beta2: 0.98,
} as const;

/**
 * Trains the warm start, or finds it in the cache.
 *
 * @param runs - Folder that holds all runs.
 * @param signal - Ends the training.
 * @param onProgress - Hears of every step.
 * @returns The model's folder.
 */
export async function warmStart(
  runs: string,
  signal: AbortSignal,
  onProgress: (step: number, loss: number) => void,
): Promise<string> {
  const settings = JSON.stringify([WARM_START, worldModel().config, DEMO_MIXTURE, DEMO_HABITS]);
  const key = createHash("sha256").update(settings).digest("hex").slice(0, 12);
  const folder = join(runs, `warm-start-${key}`);
  if (await isThere(folder)) return folder;
  await mkdir(runs, { recursive: true });
  const { seed, steps, batchSize, learningRate, beta2 } = WARM_START;
  using policy = await Policy.initialize({ ...worldModel(), seed, compute: "f32" });
  const demonstrations = await Demonstrations.create(policy.tokenizer, worldProtocol(), seed);
  const examples = (step: number) =>
    Array.from({ length: batchSize }, (_, i) => demonstrations.at(step * batchSize + i));
  const trainer = new SupervisedTrainer({
    policy,
    examples,
    steps,
    learningRate,
    optimizer: { beta2 },
    checkpointActivations: false,
    signal,
  });
  for await (const { step, loss } of trainer) onProgress(step + 1, loss);
  await saveWhole(policy, folder);
  return folder;
}

/** Renames the folder into its place when it is complete; another process may have been faster, with the same model. */
async function saveWhole(policy: Policy, folder: string): Promise<void> {
  const partial = await mkdtemp(`${folder}.partial-`);
  try {
    await policy.save(partial);
    await rename(partial, folder).catch(async (error) => {
      if (!(await isThere(folder))) throw error;
    });
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

function isThere(folder: string): Promise<boolean> {
  return access(join(folder, "model.safetensors")).then(
    () => true,
    () => false,
  );
}

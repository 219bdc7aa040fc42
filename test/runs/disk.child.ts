/**
 * Runs in a mount namespace of its own, on a small file system at `place`: trains in the tiny world, meets a full or a
 * read-only disk, and goes on. Prints what it found as JSON.
 *
 *     disk.child.ts <full | read-only> <place> <bytes left free> <folder of the initial policy>
 */
import { execFileSync } from "node:child_process";
import { appendFile, mkdir, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { type HindSearchOptions, HindSearchTrainer, Policy, RunDirectory } from "../../lib/index.js";
import { allWeights, OPTIONS } from "../support/tiny-options.js";

const [mode = "", place = "", free = "", initial = ""] = process.argv.slice(2);
const runFolder = join(place, "run");

/** Trains until it ends or fails. */
async function train(options: Partial<HindSearchOptions>, onStep?: (step: number) => Promise<void>) {
  using policy = await Policy.load(initial, { compute: "f32" });
  const steps: number[] = [];
  try {
    const trainer = new HindSearchTrainer({ ...OPTIONS, steps: 4, onWarning: () => {}, ...options, policy });
    for await (const { step } of trainer) {
      steps.push(step);
      await onStep?.(step);
    }
    return { steps, weights: await allWeights(policy) };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { steps, code, message };
  }
}

/** Fills the disk until so many bytes are free. */
async function fill(left: number): Promise<void> {
  for (;;) {
    const { bavail, bsize } = await statfs(place);
    const bytes = Math.min(bavail * bsize - left, 1 << 16);
    if (bytes <= 0) return;
    await appendFile(join(place, "filler"), Buffer.alloc(bytes));
  }
}

async function contents() {
  const run = await RunDirectory.open(runFolder, () => {});
  const steps = new Set<number>();
  for await (const { step } of run.read("metrics")) steps.add(step);
  for await (const { step } of run.read("trajectories")) steps.add(step);
  return { latest: (await run.checkpoints.latest())?.step, logged: [...steps].sort() };
}

const whole = await train({});
if (mode === "full") {
  const failed = await train({ runFolder }, async (step) => {
    if (step === 1) await fill(Number(free));
  });
  const left = await contents();
  // It stays full for as long as nobody makes room, and nothing gets worse.
  const again = await train({ runFolder, resume: true });
  const leftAgain = await contents();
  await rm(join(place, "filler"));
  const resumed = await train({ runFolder, resume: true });
  const same = JSON.stringify(resumed.weights) === JSON.stringify(whole.weights);
  console.log(
    JSON.stringify({ failed, left, again, leftAgain, resumed: { ...resumed, weights: undefined }, same }),
  );
} else {
  await train({ runFolder, steps: 2 });
  await mkdir(join(place, "empty"));
  execFileSync("mount", ["-o", "remount,ro", place]);
  const resumed = await train({ runFolder, resume: true });
  const created = await train({ runFolder: join(place, "empty") });
  console.log(JSON.stringify({ resumed, created, left: await contents() }));
}

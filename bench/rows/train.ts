import { atLeast, atMost, type Figure } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import { trainingLimit } from "../limits.js";
import { MODELS } from "../models.js";
import { TORCH, TORCH_SCRIPT, torch } from "../peers/torch.js";
import { Rounds, type Sample } from "../rounds.js";
import { type Bench, limitOf, machine, OURS, peerResults, type Row } from "../row.js";
import type { TrainTask } from "../work/train.js";

const WORK = new URL("../work/train.ts", import.meta.url);
const TINY = { model: "tiny", batch: 8, length: 512, checkpointActivations: false, steps: 4 } as const;
const HALF = { model: "0.5B", batch: 8, length: 128, steps: 2 } as const;
const GIBIBYTE = 2 ** 30;

/** What is wanted of a task: a multiple of PyTorch, a share of the limit in percent, at most so much memory. */
interface Wanted {
  torch: number;
  utilisation: number;
  gibibytes?: number;
}

/** Training steps of a model that the caches hold. */
export const trainTiny: Row = {
  name: "train-tiny",
  measure: async (bench) => [
    await trainFigure(bench, "train-tiny", { ...TINY, compute: "f32" }, { torch: 3, utilisation: 55 }),
    await trainFigure(bench, "train-tiny", { ...TINY, compute: "bf16" }, { torch: 2.5, utilisation: 48 }),
  ],
};

/** Training steps of a 0.5B model. */
export const train: Row = {
  name: "train",
  measure: async (bench) => [
    await trainFigure(
      bench,
      "train",
      // Packed weights are as large as the weights here: keeping all activations would take 10.6 GiB.
      { ...HALF, compute: "f32", checkpointActivations: true },
      { torch: 1.7, utilisation: 60, gibibytes: 10 },
    ),
    await trainFigure(
      bench,
      "train",
      { ...HALF, compute: "bf16", checkpointActivations: false },
      { torch: 1.7, utilisation: 57, gibibytes: 10 },
    ),
  ],
};

async function trainFigure(bench: Bench, row: string, task: TrainTask, wanted: Wanted): Promise<Figure> {
  const run = async () => {
    const { result, peakMemory } = await inFreshProcess<TrainTask, Sample>(WORK, task, bench);
    return { ...result, peakMemory };
  };
  const contenders = [machine(bench), { name: OURS, run }, ...torch(bench, task)];
  const rounds = await Rounds.run(contenders, bench.rounds, (line) => bench.log(`${task.compute}, ${line}`));
  const samples = rounds.each(OURS, "rate");
  const peers = peerResults(rounds, "rate", [TORCH, TORCH_SCRIPT]);
  const limit = limitOf(rounds, samples, (m) =>
    trainingLimit(m, MODELS[task.model], task.compute, task.length),
  );
  const peakMemory = Math.max(...rounds.each(OURS, "peakMemory"));
  return {
    row,
    name: `${task.model} ${task.compute}, ${task.batch} x ${task.length} tokens${task.checkpointActivations ? ", activations computed again" : ""}`,
    unit: "tok/s",
    value: rounds.median(OURS, "rate"),
    samples,
    limit,
    peakMemory,
    peers,
    targets: [
      atLeast(wanted.torch, `x ${TORCH}`, peers[TORCH]?.ratio),
      ...(rounds.has(TORCH_SCRIPT)
        ? [atLeast(wanted.torch, `x ${TORCH_SCRIPT}`, peers[TORCH_SCRIPT]?.ratio)]
        : []),
      atLeast(wanted.utilisation, "% MFU", 100 * limit.share),
      ...(wanted.gibibytes === undefined ? [] : [atMost(wanted.gibibytes, "GiB", peakMemory / GIBIBYTE)]),
    ],
    ...(rounds.has(TORCH) && { details: { peerMemory: Math.max(...rounds.each(TORCH, "peakMemory")) } }),
  };
}

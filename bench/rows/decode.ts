import { atLeast, type Figure, type Target } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import { decodeLimit } from "../limits.js";
import { MODELS } from "../models.js";
import { LLAMA, llamaDecode, NODE_LLAMA, nodeLlamaDecode } from "../peers/llama.js";
import { Rounds, type Sample } from "../rounds.js";
import { type Bench, limitOf, machine, OURS, peerResults, type Row } from "../row.js";
import type { DecodeTask } from "../work/decode.js";

const WORK = new URL("../work/decode.ts", import.meta.url);
const HALF: DecodeTask = {
  model: "0.5B",
  compute: "bf16",
  batches: [1, 8, 32, 64],
  prompt: 256,
  newTokens: 64,
  repeats: 1,
};
// One measurement takes a tenth of a second or less.
const TINY: DecodeTask = {
  model: "tiny",
  compute: "bf16",
  batches: [8, 64],
  prompt: 256,
  newTokens: 64,
  repeats: 9,
};

/** What is wanted of a batch size, as a multiple of each peer. */
type Wanted = Readonly<Record<number, Readonly<Record<string, number>>>>;

/** Decoding with a 0.5B model after a shared prompt. */
export const decode: Row = {
  name: "decode",
  measure: (bench) =>
    decodeRow(
      bench,
      "decode",
      HALF,
      {
        1: { [LLAMA]: 1.05 },
        8: { [LLAMA]: 2, [NODE_LLAMA]: 8 },
        32: { [LLAMA]: 2.2, [NODE_LLAMA]: 13 },
        64: { [LLAMA]: 2.2 },
      },
      // At 64 sequences it has nothing to say that it does not say at 32, and takes minutes.
      { ...HALF, batches: [8, 32] },
    ),
};

/** The same with a model that the caches hold. */
export const decodeTiny: Row = {
  name: "decode-tiny",
  measure: (bench) => decodeRow(bench, "decode-tiny", TINY, { 8: { [LLAMA]: 2 }, 64: { [LLAMA]: 3 } }),
};

async function decodeRow(
  bench: Bench,
  row: string,
  task: DecodeTask,
  wanted: Wanted,
  nodeLlamaTask?: DecodeTask,
): Promise<Figure[]> {
  const memory: number[] = [];
  const run = async () => {
    const { result, peakMemory } = await inFreshProcess<DecodeTask, Sample>(WORK, task, bench);
    memory.push(peakMemory);
    return result;
  };
  const contenders = [
    machine(bench),
    { name: OURS, run },
    ...llamaDecode(bench, task),
    ...(nodeLlamaTask ? nodeLlamaDecode(bench, nodeLlamaTask) : []),
  ];
  const rounds = await Rounds.run(contenders, bench.rounds, bench.log);
  const context = task.prompt + task.newTokens / 2;
  return task.batches.map((batch) => {
    const key = `batch ${batch}`;
    const samples = rounds.each(OURS, key);
    const peers = peerResults(rounds, key, [LLAMA, NODE_LLAMA]);
    const targets = Object.entries(wanted[batch] ?? {}).map(
      ([peer, times]): Target => atLeast(times, `x ${peer}`, peers[peer]?.ratio),
    );
    return {
      row,
      name: `${task.model} ${task.compute}, ${key}`,
      unit: "tok/s",
      value: rounds.median(OURS, key),
      samples,
      limit: limitOf(rounds, samples, (m) =>
        decodeLimit(m, MODELS[task.model], task.compute, batch, context),
      ),
      ...(batch === Math.max(...task.batches) && { peakMemory: Math.max(...memory) }),
      peers,
      targets,
    };
  });
}

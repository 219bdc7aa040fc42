import { resolve } from "node:path";
import { warmStart } from "../../examples/world/warm-start.js";
import { atMost } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import { mean, median } from "../rounds.js";
import type { Row } from "../row.js";
import type { HindsightPair, HindsightTask } from "../work/hindsight.js";

const WORK = new URL("../work/hindsight.ts", import.meta.url);
const RUNS = resolve(import.meta.dirname, "../../runs");
const BEFORE = 10;
const PAIRS_A_ROUND = 4;

/** What the HindSearch term costs: steps of the demo with it and without. */
export const hindsight: Row = {
  name: "hindsight",
  async measure(bench) {
    const model = await warmStart(RUNS, bench.signal, (step) => {
      if (step % 200 === 0) bench.log(`warm start, step ${step}`);
    });
    const task = { warmStart: model, before: BEFORE, pairs: PAIRS_A_ROUND * bench.rounds };
    const { result: pairs } = await inFreshProcess<HindsightTask, HindsightPair[]>(WORK, task, bench);
    const samples = pairs.map(({ grpo, hindsearch }) => 100 * (hindsearch / grpo - 1));
    const extra = median(samples);
    const failed = 100 * mean(pairs.map((pair) => pair.failed));
    bench.log(`${failed.toFixed(0)} % of the trajectories failed`);
    return [
      {
        row: "hindsight",
        name: `HindSearch step over GRPO step, ${failed.toFixed(0)} % failed`,
        unit: "% more time",
        value: extra,
        samples,
        targets: [atMost(10, "% more time", extra)],
        details: {
          grpoMilliseconds: median(pairs.map(({ grpo }) => grpo)),
          hindsearchMilliseconds: median(pairs.map(({ hindsearch }) => hindsearch)),
        },
      },
    ];
  },
};

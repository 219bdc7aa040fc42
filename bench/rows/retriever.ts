import { atMost } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import { median } from "../rounds.js";
import type { Row } from "../row.js";
import type { RetrieverResult, RetrieverTask } from "../work/retriever.js";

const WORK = new URL("../work/retriever.ts", import.meta.url);
const DELAY = 200;

/** What waiting for a search engine costs a rollout. */
export const retriever: Row = {
  name: "retriever",
  async measure(bench) {
    const delays = Array.from({ length: bench.rounds }, (_, round) =>
      round % 2 === 0 ? [0, DELAY] : [DELAY, 0],
    );
    const task: RetrieverTask = { trajectories: 64, delays: delays.flat() };
    const { result } = await inFreshProcess<RetrieverTask, RetrieverResult[]>(WORK, task, bench);
    const times = (wanted: number) =>
      result.filter(({ delay }) => delay === wanted).map(({ milliseconds }) => milliseconds);
    const [fast, slow] = [times(0), times(DELAY)];
    const samples = slow.map((milliseconds, round) => milliseconds / (fast[round] ?? Number.NaN));
    const value = median(samples);
    return [
      {
        row: "retriever",
        name: `64 trajectories, searches of ${DELAY} ms over 0 ms`,
        unit: "x the time",
        value,
        samples,
        targets: [atMost(1.15, "x the time", value)],
        details: result,
      },
    ];
  },
};

import { describe, expect, test } from "vitest";
import type { RunSummary } from "../../lib/dashboard/messages.js";
import type { DrawnRun } from "../../lib/dashboard/page/drawn-run.js";
import { averageSeeds, haveSeeds } from "../../lib/dashboard/page/seed-means.js";
import { pairedDifference } from "../../lib/evaluation/paired.js";

/** A run with its exact match at steps 5 and 10, and its reward at its steps. */
function runOf(
  settings: string,
  seed: string,
  scores: (number | null)[],
  reward: (number | null)[] = [0.5],
): DrawnRun {
  const id = `${settings}/${seed}`;
  const nothing = scores.map(() => null);
  return {
    summary: { id, settings, seed, method: settings } as RunSummary,
    name: id,
    color: 1,
    curves: {
      run: id,
      revision: "",
      steps: reward.map((_, step) => step),
      measures: { reward },
      evaluations: [
        {
          mode: "greedy",
          x: [5, 10],
          exactMatch: scores,
          low: nothing,
          high: nothing,
          f1: nothing,
          searches: nothing,
        },
      ],
    },
  };
}

const RUNS = [
  runOf("grpo", "1", [0.2, 0.5], [0.1, 0.3]),
  runOf("hindsearch", "1", [0.3, 0.9]),
  runOf("grpo", "2", [0.3, 0.6], [0.3, null, 0.7]),
  runOf("hindsearch", "2", [0.2, 0.7]),
  runOf("hindsearch", "3", [0.9, null]),
];

describe("means over seeds", () => {
  test("one line per settings, with t intervals over the seeds", () => {
    const { runs } = averageSeeds(RUNS, "grpo/1");
    expect(runs.map(({ name }) => name)).toEqual(["grpo × 2 (grpo/1)", "hindsearch × 3 (hindsearch/1)"]);
    const [grpo, hindsearch] = runs.map(({ curves }) => curves);
    expect(grpo?.steps).toEqual([0, 1, 2]);
    expect(grpo?.measures.reward).toEqual([0.2, 0.3, 0.7]);
    const { mean, low, high } = pairedDifference([0.2, 0.3], [0, 0]);
    expect(grpo?.evaluations[0]).toMatchObject({ mode: "greedy", x: [5, 10] });
    expect([
      grpo?.evaluations[0]?.exactMatch[0],
      grpo?.evaluations[0]?.low[0],
      grpo?.evaluations[0]?.high[0],
    ]).toEqual([mean, low, high]);
    expect(hindsearch?.evaluations[0]?.exactMatch[1]).toBeCloseTo(0.8, 12);
  });

  test("differences are paired by seed; a seed without a partner counts for nothing", () => {
    const { compare } = averageSeeds(RUNS, "grpo/2");
    expect(compare?.base).toBe("grpo/1");
    const [pair] = compare?.pairs ?? [];
    expect(pair?.run).toBe("hindsearch/1");
    const expected = pairedDifference([0.3, 0.2], [0.2, 0.3]);
    expect(pair?.differences[0]).toMatchObject({ x: [5, 10] });
    expect(pair?.differences[0]?.mean[0]).toBeCloseTo(expected.mean, 12);
    expect(pair?.differences[0]?.low[0]).toBeCloseTo(expected.low as number, 12);
    expect(pair?.differences[0]?.mean[1]).toBeCloseTo(0.25, 12);
  });

  test("settings with one run stay as they are, without an interval of seeds", () => {
    const alone = [RUNS[0], RUNS[1], RUNS[2]] as DrawnRun[];
    expect([haveSeeds(alone), haveSeeds(alone.slice(0, 2))]).toEqual([true, false]);
    expect(averageSeeds(alone, undefined).runs[1]).toBe(RUNS[1]);
    expect(averageSeeds(alone.slice(0, 1), undefined).compare).toBeUndefined();
  });
});

import { expect, test } from "vitest";
import { metricPoints } from "../../../lib/runs/sinks/points.js";

const named = (record: Parameters<typeof metricPoints>[0]) =>
  metricPoints(record, 5).map(({ name, value, step, time }) => [name, value, step, time]);

test("numbers of a step by their paths; updates as means over those that have the number", () => {
  const record = {
    kind: "step",
    step: 4,
    rollout: { reward: 0.5, entropy: null, statuses: { "no answer": 2 }, worst: Number.NaN },
    rolloutGap: 0,
    updates: [
      { loss: 1, policyTokens: 10, skipped: null, clip: 0.5 },
      { loss: 2, policyTokens: 20, skipped: "empty", clip: Number.NaN },
    ],
    big: 2n ** 40n,
  };
  expect(named(record)).toEqual([
    ["rollout/reward", 0.5, 5, 5],
    ["rollout/statuses/no answer", 2, 5, 5],
    ["rolloutGap", 0, 5, 5],
    ["updates/loss", 1.5, 5, 5],
    ["updates/policyTokens", 15, 5, 5],
    ["updates/clip", 0.5, 5, 5],
    ["big", 2 ** 40, 5, 5],
  ]);
});

test("scores of an evaluation by its mode, without results and settings", () => {
  const record = {
    kind: "evaluation",
    step: 3,
    stepsDone: 4,
    mode: "greedy",
    exactMatch: 0.25,
    results: [{ exactMatch: 1 }],
    settings: { maxTokens: 64 },
  };
  expect(named(record)).toEqual([["evaluation/greedy/exactMatch", 0.25, 4, 5]]);
});

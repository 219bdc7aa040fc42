import { expect, test } from "vitest";
import type { RunDirectory } from "../../lib/runs/run.js";
import { recordStep, type StepMetrics } from "../../lib/training/record.js";
import { sampleOf } from "./samples.js";

test("trajectories are written in their order, a limited number of tokens at a time", async () => {
  const appended: { log: string; records: readonly Record<string, unknown>[] }[] = [];
  const append: RunDirectory["append"] = async (log, records) => {
    appended.push({ log, records });
  };
  const kinds = Array.from({ length: 2_000 }, () => "think" as const);
  // One large group and three of one: what is written at once does not go by groups.
  const groups = [40, 1, 1, 1].map((size, group) =>
    Array.from({ length: size }, (_, sample) => sampleOf({ id: `7-${group}-${sample}` }, {}, kinds)),
  );
  await recordStep({ append }, { step: 7 } as StepMetrics, groups);
  const trajectories = appended.filter(({ log }) => log === "trajectories").map(({ records }) => records);
  expect(trajectories.flat().map(({ id }) => id)).toEqual(
    groups.flat().map((sample) => sample.trajectory.id),
  );
  expect(Math.max(...trajectories.map(({ length }) => length))).toBe(8);
  expect(trajectories.length).toBe(6);
  expect(appended.at(-1)).toEqual({ log: "metrics", records: [{ kind: "step", step: 7 }] });
});

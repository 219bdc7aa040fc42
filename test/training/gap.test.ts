import { expect, test } from "vitest";
import { gapHealth, quantile } from "../../lib/training/gap.js";
import { sampleOf } from "./samples.js";

test("statistics of the gap over the scope's tokens, by hand", async () => {
  // Search tokens 2 and 3 of each sample have student log-probs -0.375 and -0.5.
  const columns = [
    [-0.375, -1.5], // gaps 0, -1
    [0.625, -0.25], // gaps 1, 0.25
    [-0.335, 1], // gaps 0.04, 1.5
  ];
  const health = await gapHealth(
    columns.map(([a, b]) => [sampleOf(), Float32Array.of(9, 9, a as number, b as number, 9, 9, 9)]),
    "search",
    [0, 1],
  );
  expect(health.tokens).toBe(6);
  expect(health.mean).toBeCloseTo((0 - 1 + 1 + 0.25 + 0.04 + 1.5) / 6, 6);
  expect(health.median).toBeCloseTo(0.04, 6);
  expect(health.p95).toBeCloseTo(1.5, 6);
  expect(health.shareBelow).toBeCloseTo(2 / 6, 12);
  expect(health.shareInside).toBeCloseTo(2 / 6, 12);
  expect(health.shareSaturated).toBeCloseTo(2 / 6, 12);
  expect(health.shareMoved).toBeCloseTo(4 / 6, 12);
  expect(health.meanWeight).toBeCloseTo((0 + 0 + 1 + 0.25 + 0.04 + 1) / 6, 6);
  expect(health.studentLogProb).toBeCloseTo(-0.4375, 12);
});

test("no tokens, no numbers", async () => {
  const health = await gapHealth([], "search", [0, 1]);
  expect(health.tokens).toBe(0);
  expect(Object.values(health).slice(1)).toEqual(Array(10).fill(null));
});

test("quantiles are values that were there", () => {
  const sorted = Array.from({ length: 20 }, (_, i) => i + 1);
  expect([0.05, 0.5, 0.95, 1].map((q) => quantile(sorted, q))).toEqual([1, 10, 19, 20]);
  expect(quantile([7], 0.95)).toBe(7);
  expect(quantile([], 0.5)).toBeNull();
});

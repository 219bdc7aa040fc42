import { expect, test } from "vitest";
import { pairedDifference, studentQuantile } from "../../lib/evaluation/paired.js";

// Critical values of published t tables, to their last digit.
test.each([
  [1, 0.975, 12.7062],
  [2, 0.975, 4.3027],
  [3, 0.975, 3.1824],
  [6, 0.975, 2.4469],
  [9, 0.975, 2.2622],
  [30, 0.975, 2.0423],
  [120, 0.975, 1.9799],
  [1, 0.95, 6.3138],
  [5, 0.995, 4.0321],
  [10_000, 0.975, 1.9602],
])("t quantile with %i degrees of freedom at %f", (freedom, probability, expected) => {
  expect(Math.abs(studentQuantile(probability, freedom) - expected)).toBeLessThan(6e-5);
});

test("with one degree of freedom it is the Cauchy distribution's", () => {
  for (const p of [0.6, 0.75, 0.9, 0.999]) {
    expect(studentQuantile(p, 1)).toBeCloseTo(Math.tan(Math.PI * (p - 0.5)), 9);
  }
});

test("with two it has a closed form", () => {
  for (const p of [0.55, 0.8, 0.975, 0.9999]) {
    expect(studentQuantile(p, 2)).toBeCloseTo((2 * p - 1) / Math.sqrt(2 * p * (1 - p)), 8);
  }
});

test("mean, deviation and interval by hand", () => {
  const { n, mean, deviation, low, high } = pairedDifference([3, 5, 4], [1, 2, 3]);
  expect([n, mean]).toEqual([3, 2]);
  expect(deviation).toBeCloseTo(1, 12);
  expect(low).toBeCloseTo(2 - 4.302653 / Math.sqrt(3), 6);
  expect(high).toBeCloseTo(2 + 4.302653 / Math.sqrt(3), 6);
});

test("one pair has no interval, equal pairs one of length zero", () => {
  expect(pairedDifference([1], [0])).toMatchObject({ mean: 1, low: null, high: null });
  expect(pairedDifference([2, 3], [1, 2])).toMatchObject({ mean: 1, low: 1, high: 1 });
});

test("what cannot be paired is refused", () => {
  expect(() => pairedDifference([1], [1, 2])).toThrow(/found 1 and 2/);
  expect(() => pairedDifference([], [])).toThrow(/at least one/);
  expect(() => pairedDifference([1, Number.NaN], [1, 2])).toThrow(/Pair 1 is NaN/);
  expect(() => pairedDifference([1], [2], 1)).toThrow(/confidence/);
});

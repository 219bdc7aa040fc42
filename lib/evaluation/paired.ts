import { HindsearchError } from "../errors.js";

/** Mean of paired differences with its t interval. */
export interface PairedDifference {
  /** Pairs. */
  n: number;
  /** Mean of `a - b`. */
  mean: number;
  /** Unbiased standard deviation of the differences. */
  deviation: number;
  /** Lower end of the interval; `null` with fewer than two pairs, which say nothing about the spread. */
  low: number | null;
  /** Upper end. */
  high: number | null;
  /** Share of repetitions that would cover the true mean, e.g. 0.95. */
  confidence: number;
}

/**
 * The mean of `a[i] - b[i]` with Student's t interval: what two runs on the same seeds, or two policies on the same
 * questions, are compared by.
 *
 * @param a - One value per pair.
 * @param b - As many.
 * @param confidence - Between 0 and 1. Default 0.95.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the lengths differ, there is no pair, or a value is not finite.
 */
export function pairedDifference(
  a: readonly number[],
  b: readonly number[],
  confidence = 0.95,
): PairedDifference {
  if (a.length !== b.length || a.length === 0) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Paired values must be as many on both sides and at least one; found ${a.length} and ${b.length}.`,
    );
  }
  if (!(confidence > 0 && confidence < 1)) {
    throw new HindsearchError("INVALID_ARGUMENT", `confidence is ${confidence}, expected between 0 and 1.`);
  }
  const differences = a.map((value, i) => value - (b[i] as number));
  const broken = differences.findIndex((value) => !Number.isFinite(value));
  if (broken >= 0) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Pair ${broken} is ${a[broken]} and ${b[broken]}; expected two finite numbers.`,
    );
  }
  const n = differences.length;
  const mean = differences.reduce((sum, value) => sum + value, 0) / n;
  if (n === 1) return { n, mean, deviation: 0, low: null, high: null, confidence };
  const squares = differences.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / (n - 1));
  const half = (studentQuantile((1 + confidence) / 2, n - 1) * deviation) / Math.sqrt(n);
  return { n, mean, deviation, low: mean - half, high: mean + half, confidence };
}

/**
 * Quantile of Student's t distribution, by bisection on its distribution function.
 *
 * @param probability - In [0.5, 1).
 * @param freedom - Degrees of freedom, at least 1.
 * @internal
 */
export function studentQuantile(probability: number, freedom: number): number {
  let low = 0;
  let high = 1;
  while (studentTail(high, freedom) > 1 - probability) high *= 2;
  for (let i = 0; i < 200 && high - low > 1e-12 * high; i++) {
    const middle = (low + high) / 2;
    if (studentTail(middle, freedom) > 1 - probability) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** P(T > t) for t >= 0: half the regularised incomplete beta function at v / (v + t^2) of (v / 2, 1 / 2). */
function studentTail(t: number, freedom: number): number {
  return incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2;
}

/** Regularised incomplete beta function by its continued fraction, on the side where that converges fast. */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  // Lentz's method. The terms of the fraction alternate between two forms.
  let c = 1;
  let d = 1 / floor(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m < 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let change = 1;
    for (const term of [even, odd]) {
      d = 1 / floor(1 + term * d);
      c = floor(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (Math.abs(change - 1) < 1e-15) break;
  }
  return (front * fraction) / a;
}

function floor(value: number): number {
  return Math.abs(value) < 1e-300 ? 1e-300 : value;
}

/** Stirling's series after shifting the argument above 15, where it is exact to the last bits of a double. */
function logGamma(x: number): number {
  let shift = 0;
  let z = x;
  for (; z < 15; z++) shift += Math.log(z);
  const inverse = 1 / z;
  const square = inverse * inverse;
  const series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)));
  return (z - 0.5) * Math.log(z) - z + Math.log(2 * Math.PI) / 2 + series - shift;
}

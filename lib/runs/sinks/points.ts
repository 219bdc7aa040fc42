import type { RunRecord } from "../log-file.js";
import type { MetricPoint } from "./metric-sink.js";

/** What is not a number to follow: names, per-question results, what a score depends on. */
const LEFT_OUT = new Set(["kind", "step", "stepsDone", "mode", "results", "settings"]);

/**
 * The numbers of a metrics record, named by their path. Lists of objects (the updates of a step) give the mean of
 * each of their numbers; `null`, NaN and infinities give none.
 *
 * @internal
 */
export function metricPoints(record: RunRecord, time: number): MetricPoint[] {
  const evaluation = record.kind === "evaluation";
  const prefix = evaluation ? ["evaluation", String(record.mode)] : [];
  const step = evaluation ? Number(record.stepsDone) : record.step + 1;
  const points: MetricPoint[] = [];
  const walk = (value: unknown, path: readonly string[]) => {
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number === "number") {
      if (Number.isFinite(number)) points.push({ name: path.join("/"), value: number, step, time });
    } else if (Array.isArray(value)) {
      walk(means(value), path);
    } else if (typeof value === "object" && value !== null) {
      for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
    }
  };
  for (const [key, value] of Object.entries(record)) if (!LEFT_OUT.has(key)) walk(value, [...prefix, key]);
  return points;
}

/** Of each number that the objects of a list have, the mean over those that have it. */
function means(list: readonly unknown[]): Record<string, number> {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const item of list) {
    if (typeof item !== "object" || item === null) continue;
    for (const [key, value] of Object.entries(item)) {
      if (typeof value !== "number" || !Number.isFinite(value)) continue;
      const { sum, count } = sums.get(key) ?? { sum: 0, count: 0 };
      sums.set(key, { sum: sum + value, count: count + 1 });
    }
  }
  return Object.fromEntries([...sums].map(([key, { sum, count }]) => [key, sum / count]));
}

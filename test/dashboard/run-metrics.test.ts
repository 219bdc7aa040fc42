import { appendFile, readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { MEASURES, type MeasureName } from "../../lib/dashboard/measures.js";
import type { Values } from "../../lib/dashboard/messages.js";
import { CHART_PLAN, TIME_PARTS } from "../../lib/dashboard/page/chart-plan.js";
import { RunMetrics } from "../../lib/dashboard/run-metrics.js";
import { signalVerdict } from "../../lib/dashboard/verdict.js";
import { pairedDifference } from "../../lib/evaluation/paired.js";
import { scratchFolder } from "../support/scratch-folder.js";
import { evaluationOf, lines, stepOf } from "./run-files.js";

const scratch = scratchFolder();
let files = 0;

async function metricsOf(records: readonly unknown[]): Promise<RunMetrics> {
  const path = scratch(`${files++}.jsonl`);
  await writeFile(path, lines(records));
  const metrics = new RunMetrics(path);
  await metrics.update();
  return metrics;
}

test("measures are those of the lines, null where a line has none", async () => {
  const metrics = await metricsOf([stepOf(0), stepOf(3, { judge: undefined, reference: undefined })]);
  expect(metrics.steps).toEqual([0, 3]);
  const { reward, mixed, kl, gradientNorm, stepSeconds, tokensPerSecond, judged, gap } = metrics.measures;
  expect(reward).toEqual([0.2, 0.23]);
  expect(mixed).toEqual([0.5, 0.5]);
  expect(kl).toEqual([0.01, null]);
  expect(judged).toEqual([1, null]);
  expect(gradientNorm).toEqual([1.5, 1.5]);
  expect(stepSeconds).toEqual([1, 1]);
  expect(tokensPerSecond).toEqual([420, 420]);
  expect(gap).toEqual([0.1, 0.1]);
});

test("every measure is drawn, or looked at by the verdict", async () => {
  const drawn = [...CHART_PLAN.flatMap(({ charts }) => charts.flatMap(({ lines }) => lines)), ...TIME_PARTS];
  const verdict = await readFile(resolve(import.meta.dirname, "../../lib/dashboard/verdict.ts"), "utf8");
  const unused = (Object.keys(MEASURES) as MeasureName[]).filter(
    (name) => !drawn.some(({ measure }) => measure === name) && !new RegExp(`\\b${name}\\b`).test(verdict),
  );
  expect(unused).toEqual([]);
});

test("grows with its file, and lines that are no records are counted", async () => {
  const path = scratch(`${files++}.jsonl`);
  const metrics = new RunMetrics(path);
  await metrics.update();
  expect(metrics.revision).toBe(0);
  await writeFile(path, lines([stepOf(0)]));
  await metrics.update();
  await metrics.update();
  expect(metrics.revision).toBe(1);
  const bad = [
    "{",
    "7",
    '{"kind":"step"}',
    '{"kind":"step","step":0}',
    '{"kind":"step","step":"9"}',
    '{"kind":"evaluation"}',
  ];
  await appendFile(
    path,
    `${bad.join("\n")}\n${lines([stepOf(1), { kind: "of a later version" }])}{"kind":"st`,
  );
  await metrics.update();
  expect(metrics.steps).toEqual([0, 1]);
  expect(metrics.broken).toBe(bad.length - 1);
});

test("hostile values are no numbers, whatever they are", async () => {
  const hostile = {
    rollout: { reward: "1e9", groups: "x", statuses: null, __proto__: { entropy: 1 } },
    updates: [null, 7, { gradientNorm: "NaN" }],
    milliseconds: [],
    distillation: { gap: { mean: { valueOf: 1 } } },
  };
  const metrics = await metricsOf([stepOf(0, hostile)]);
  const { reward, mixed, noAnswer, entropy, gradientNorm, skipped, stepSeconds, gap } = metrics.measures;
  expect([reward, mixed, noAnswer, entropy, gradientNorm, stepSeconds, gap]).toEqual(Array(7).fill([null]));
  expect(skipped).toEqual([0]);
});

describe("evaluations", () => {
  test("have Wilson intervals over their questions", async () => {
    const metrics = await metricsOf([
      evaluationOf(5, [1, 1, 0, null]),
      evaluationOf(0, [0, 0, 0, 0]),
      evaluationOf(0, [1], "sampled"),
    ]);
    const [greedy, sampled] = metrics.evaluations();
    expect(greedy).toMatchObject({ mode: "greedy", x: [0, 5], exactMatch: [0, 0.666667] });
    // The interval of 2 of 3 is 0.2077 to 0.9385, that of 0 of 4 is 0 to 0.4899 (Wilson 1927, computed apart).
    expect(greedy?.low[1]).toBeCloseTo(0.2077, 4);
    expect(greedy?.high[1]).toBeCloseTo(0.9385, 4);
    expect(greedy?.low[0]).toBe(0);
    expect(greedy?.high[0]).toBeCloseTo(0.4899, 4);
    expect(sampled).toMatchObject({ mode: "sampled", x: [0], exactMatch: [1] });
  });

  test("of two runs are paired by question, where steps, mode and questions are the same", async () => {
    const [a, b] = [
      [1, 1, 0, 1, 0],
      [0, 1, 0, null, 0],
    ];
    const run = await metricsOf([
      evaluationOf(5, a),
      evaluationOf(10, a),
      evaluationOf(15, a, "greedy", "other"),
    ]);
    const base = await metricsOf([evaluationOf(5, b), evaluationOf(15, b), evaluationOf(10, b, "sampled")]);
    const [pair, ...others] = run.against(base);
    expect(others).toEqual([]);
    // The fourth question has no score in one of them.
    const expected = pairedDifference([1, 1, 0, 0], [0, 1, 0, 0]);
    expect(pair).toMatchObject({ mode: "greedy", x: [5], mean: [0.25], questions: 4 });
    expect(pair?.low[0]).toBeCloseTo(expected.low as number, 5);
    expect(pair?.high[0]).toBeCloseTo(expected.high as number, 5);
  });
});

describe("the verdict", () => {
  const names = Object.keys(MEASURES) as MeasureName[];
  const measured = (values: Partial<Record<MeasureName, Values>>) =>
    signalVerdict({
      ...(Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<MeasureName, Values>),
      ...values,
    });
  const of = (value: number) => Array.from({ length: 12 }, () => value);

  test("of a run without steps is unknown, that of a sound one good", async () => {
    expect(measured({})).toEqual({ level: "unknown", title: "No training step yet", findings: [] });
    const metrics = await metricsOf(Array.from({ length: 12 }, (_, step) => stepOf(step)));
    const verdict = signalVerdict(metrics.measures);
    expect([verdict.level, verdict.title]).toEqual(["watch", "Many trajectories end without an answer"]);
    expect(verdict.findings.filter(({ level }) => level !== "good").map(({ id }) => id)).toEqual([
      "unanswered",
    ]);
  });

  test.each<[string, string, Partial<Record<MeasureName, Values>>]>([
    ["skipped", "bad", { skipped: [0, 0, 1] }],
    ["skipped", "watch", { skipped: [1, ...of(0)] }],
    ["rollout-gap", "bad", { rolloutGap: [0, 0.2, 0] }],
    ["rollout-gap", "good", { rolloutGap: [0, 0] }],
    ["groups", "bad", { mixed: of(0.05), allFail: of(0.95), allPass: of(0) }],
    ["groups", "good", { mixed: of(0.5) }],
    ["reward", "bad", { reward: [...of(0.5), ...of(0.2)] }],
    ["reward", "watch", { reward: of(0.3) }],
    ["reward", "good", { reward: [...of(0.2), ...of(0.4)] }],
    ["entropy", "bad", { entropy: [...of(1), ...of(0.05)] }],
    ["entropy", "watch", { entropy: [...of(1), ...of(4)] }],
    ["kl", "bad", { kl: of(8) }],
    ["outages", "bad", { searchFailed: of(0.1) }],
    ["unanswered", "bad", { truncated: of(0.3), noAnswer: of(0.2) }],
    ["queries", "watch", { answerInQuery: [...of(0), ...of(0.5)] }],
    ["queries", "watch", { answerInQuery: of(0), repeatedQuery: of(0.5) }],
    ["coverage", "bad", { coverage: of(0) }],
    ["hint", "watch", { weight: [0.03, 0.03], emptyWeight: [0.05, null], shuffledWeight: [0.01, null] }],
    ["hint", "bad", { weight: [0], emptyWeight: [0], shuffledWeight: [0] }],
    ["hint", "good", { weight: [0.1, 0.001], emptyWeight: [0.05, null], shuffledWeight: [0.01, null] }],
    ["gradients", "bad", { gradientRatio: [20, null] }],
    ["gradients", "watch", { gradientRatio: [1], gradientCosine: [-0.8] }],
    ["judge", "bad", { judgeFailed: of(0.5) }],
    ["leaks", "bad", { leaked: of(0.2) }],
    ["leaks", "good", { leaked: of(0) }],
  ])("%s is %s for %j", (id, level, values) => {
    const { findings } = measured(values);
    expect(findings.map((finding) => [finding.id, finding.level])).toEqual([[id, level]]);
    expect(findings[0]?.text).not.toMatch(/NaN|undefined|null/);
  });

  test("is that of its worst finding, named first", () => {
    const verdict = measured({ kl: of(2), leaked: of(0.5), coverage: of(0.3) });
    expect(verdict.findings.map(({ level }) => level)).toEqual(["bad", "watch", "good"]);
    expect([verdict.level, verdict.title]).toEqual(["bad", "Critiques leak the answer"]);
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  colourOf,
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
} from "../../examples/own-loop/tiny-world.js";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { rollout } from "../../lib/agent/rollout.js";
import type { Trajectory } from "../../lib/agent/trajectory.js";
import type { Judge } from "../../lib/judge/judge.js";
import type { Policy } from "../../lib/policy/policy.js";
import { evaluateJudge, type JudgeQualityOptions } from "../../lib/training/judge-quality.js";
import { contrastQueries, deviationOf } from "../../lib/training/query-contrast.js";
import { tinyTrainer } from "../support/tiny-trainer.js";

const { fresh } = tinyTrainer();
let teacher: Policy;
let failed: Trajectory[];
let options: JudgeQualityOptions;

beforeAll(async () => {
  teacher = await (await fresh()).snapshot();
  using decoder = await teacher.createDecoder({ cacheTokens: 8192 });
  const protocol = new BoundProtocol(TINY_PROTOCOL, teacher);
  const { groups } = await rollout({
    decoder,
    retriever: TINY_RETRIEVER,
    protocol,
    questions: TINY_QUESTIONS,
    groupSize: 12,
    seed: 5,
  });
  failed = groups.flat().filter(({ question, answer }) => answer !== question.goldAnswers[0]);
  options = {
    teacher,
    protocol: TINY_PROTOCOL,
    goldQueries: ({ question }) => [question.question.split(" ")[2] as string],
  };
});
afterAll(() => teacher.dispose());

const saying = (text: (question: string) => string): Judge => ({
  critique: async ({ question }) => ({ status: "ok", text: text(question) }),
});

describe("evaluateJudge", () => {
  test("a judge that names the right search turns the teacher to it, and its controls do not", async () => {
    const quality = await evaluateJudge(TINY_JUDGE, failed, options);
    expect(quality.measured).toBeGreaterThan(10);
    expect(quality.critiqueShare).toBe(1);
    expect(quality.leakShare).toBe(0);
    expect(quality.gold.real?.low).toBeGreaterThan(0);
    expect(quality.failed.real?.high).toBeLessThan(0);
    expect(quality.separation.real?.low).toBeGreaterThan(1);
    expect(quality.overEmpty?.low).toBeGreaterThan(0);
    expect(quality.overShuffled?.low).toBeGreaterThan(0);
    const { gold, failed: made, separation } = quality;
    expect(separation.real?.mean).toBeCloseTo((gold.real?.mean ?? 0) - (made.real?.mean ?? 0), 10);
    expect(quality.overEmpty?.mean).toBeCloseTo(
      (separation.real?.mean ?? 0) - (separation.empty?.mean ?? 0),
      10,
    );
  });

  test("worse judges score less, in order", async () => {
    const names = TINY_QUESTIONS.map(({ id }) => id);
    const after = (question: string) =>
      names[(names.indexOf(question.split(" ")[2] as string) + 1) % names.length] as string;
    const judges = [TINY_JUDGE, saying(() => "colour"), saying(after)];
    const separations = [];
    for (const judge of judges)
      separations.push((await evaluateJudge(judge, failed, options)).separation.real?.mean ?? 0);
    const [good = 0, generic = 0, wrong = 0] = separations;
    expect(good).toBeGreaterThan(generic + 1);
    expect(good).toBeGreaterThan(wrong + 1);
    expect(Math.abs(generic)).toBeLessThan(good / 2);
  });

  test("an empty critique is the empty control", async () => {
    const quality = await evaluateJudge(
      saying(() => ""),
      failed,
      options,
    );
    expect(quality.separation.real).toEqual(quality.separation.empty);
    expect(quality.overEmpty).toMatchObject({ mean: 0, deviation: 0 });
  });

  test("failures are counted and left out", async () => {
    let call = 0;
    const flaky: Judge = {
      critique: async (input) =>
        call++ % 2 === 0 ? { status: "refused", reason: "no" } : TINY_JUDGE.critique(input),
    };
    const quality = await evaluateJudge(flaky, failed, options);
    const half = Math.ceil(quality.trajectories / 2);
    expect(quality.critiques.failures).toEqual({ refused: half });
    expect(quality.critiqueShare).toBeCloseTo(1 - half / quality.trajectories, 10);
    expect(quality.measured + quality.withoutDeviation).toBe(quality.trajectories - half);
    const silent: Judge = { critique: async () => ({ status: "failed", reason: "outage" }) };
    expect(await evaluateJudge(silent, failed, options)).toMatchObject({
      measured: 0,
      critiqueShare: 0,
      leakShare: null,
      separation: { real: null, empty: null, shuffled: null },
      overEmpty: null,
    });
  });

  test("counts leaks, contexts over the budget, and trajectories on the gold path", async () => {
    const leaking = saying((question) => `it is ${colourOf(question.split(" ")[2] as string)}`);
    expect((await evaluateJudge(leaking, failed, options)).leakShare).toBe(1);
    const tight = await evaluateJudge(TINY_JUDGE, failed, { ...options, maxTeacherTokens: 8 });
    expect(tight).toMatchObject({ measured: 0, overBudget: expect.any(Number) });
    expect(tight.overBudget).toBeGreaterThan(0);
    const none = await evaluateJudge(TINY_JUDGE, failed, { ...options, goldQueries: () => undefined });
    expect(none).toMatchObject({ measured: 0, withoutDeviation: none.trajectories });
  });

  test("intervals count questions, not trajectories", async () => {
    const quality = await evaluateJudge(TINY_JUDGE, failed, options);
    expect(quality.gold.real?.n).toBeLessThanOrEqual(TINY_QUESTIONS.length);
    const twice = await evaluateJudge(TINY_JUDGE, [...failed, ...failed.map((one) => ({ ...one }))], options);
    expect(twice.gold.real?.low).toBeCloseTo(quality.gold.real?.low ?? 0, 10);
  });

  test("refuses a teacher that changes, and mixed temperatures", async () => {
    const policy = await fresh();
    await expect(evaluateJudge(TINY_JUDGE, failed, { ...options, teacher: policy })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    const [first, ...rest] = failed as [Trajectory, ...Trajectory[]];
    const mixed = [{ ...first, sampling: { ...first.sampling, temperature: 0.5 } }, ...rest];
    await expect(evaluateJudge(TINY_JUDGE, mixed, options)).rejects.toThrow(/temperatures 0.5, 1/);
  });

  test("an abort ends it", async () => {
    const call = evaluateJudge(TINY_JUDGE, failed, { ...options, signal: AbortSignal.abort() });
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describe("contrastQueries", () => {
  test("the failed query has the log-prob that it was sampled with, in the same context", async () => {
    const protocol = new BoundProtocol(TINY_PROTOCOL, teacher);
    const deviations = failed.flatMap((trajectory) => deviationOf(trajectory, ["nobody", "nobody"]) ?? []);
    expect(deviations.length).toBeGreaterThan(10);
    const none = deviations.map(() => undefined);
    const scored = await contrastQueries(teacher, protocol, deviations, none, {
      temperature: 1,
      maxTokens: 96,
    });
    for (const [i, { trajectory, search }] of deviations.entries()) {
      const { start, end } = trajectory.searches[search] as Trajectory["searches"][number];
      const sampled = [...trajectory.logProbs.subarray(start, end)];
      expect(scored[i]?.failed).toBe(sampled.reduce((sum, value) => sum + value, 0) / sampled.length);
    }
  });

  test("a gold query that equals the failed one is encoded to its tokens", async () => {
    const protocol = new BoundProtocol(TINY_PROTOCOL, teacher);
    const deviations = failed.flatMap((trajectory) => {
      const { query = "" } = trajectory.searches[0] ?? {};
      return query === "" ? [] : [{ trajectory, search: 0, goldQuery: query }];
    });
    const none = deviations.map(() => undefined);
    const scored = await contrastQueries(teacher, protocol, deviations, none, {
      temperature: 1,
      maxTokens: 96,
    });
    for (const contrast of scored) expect(contrast?.gold).toBe(contrast?.failed);
  });
});

test("deviationOf finds the first search that is off the path", () => {
  const trajectory = {
    searches: ["The Jaws!", "b", "c"].map((query, i) => ({ query, passages: [], start: i, end: i + 1 })),
  };
  const at = (...gold: string[]) => deviationOf(trajectory as unknown as Trajectory, gold);
  expect(at("jaws", "x", "y")).toMatchObject({ search: 1, goldQuery: "x" });
  expect(at("jaws", "b")).toBeUndefined();
  expect(at("x")).toMatchObject({ search: 0 });
  expect(at()).toBeUndefined();
});

import { describe, expect, test } from "vitest";
import { TINY_QUESTIONS, TINY_RETRIEVER } from "../../examples/own-loop/tiny-world.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { allWeights, tinyTrainer } from "../support/tiny-trainer.js";
import { timeless } from "./timeless.js";

const { scratch, fresh, train } = tinyTrainer();

const gap = (a: number[], b: number[]) =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));

describe("the first step", () => {
  test("trains what was sampled: ratio 1 and distance 0, exactly", async () => {
    const { results } = await train({ steps: 1 });
    const [{ metrics }] = results as [TrainingStepResult];
    expect(metrics.rolloutGap).toBe(0);
    expect(metrics.updates[0]).toMatchObject({
      ratioMean: 1,
      ratioMax: 1,
      clipFractionLow: 0,
      clipFractionHigh: 0,
    });
    expect(metrics.reference).toEqual({ k3: 0, k3Search: 0 });
    expect(metrics.updates[1]?.logRatioMaxAbs).toBeGreaterThan(0);
  });

  test("health numbers hang together", async () => {
    const { results } = await train({ steps: 1 });
    const [{ metrics, groups }] = results as [TrainingStepResult];
    const samples = groups.flat();
    const { rollout, judge, distillation, gradients, updates } = metrics;
    expect(samples.length).toBe(30);
    expect(rollout.trajectories).toBe(30);
    expect(Object.values(rollout.statuses).reduce((a, b) => a + b)).toBe(30);
    expect(Object.values(rollout.groups).reduce((a, b) => a + b)).toBe(6);
    expect(rollout.failedShare).toBeCloseTo(1 - (rollout.reward ?? 0), 12);
    expect(updates.reduce((sum, { policyTokens }) => sum + policyTokens, 0)).toBe(rollout.policyTokens);
    expect(updates.reduce((sum, { distillTokens }) => sum + distillTokens, 0)).toBe(distillation?.gap.tokens);
    expect(judge).toMatchObject({
      calls: samples.filter(({ failed, trajectory }) => failed && trajectory.searches.length > 0).length,
    });
    expect(distillation?.emptyGap?.tokens).toBe(distillation?.gap.tokens);
    expect(gradients?.policy).toBeGreaterThan(0);
    expect(gradients?.distill).toBeGreaterThan(0);
    expect(Math.abs(gradients?.cosine ?? 2)).toBeLessThanOrEqual(1);
  });

  test("the loss of an update is the sum of its terms", async () => {
    const { results } = await train({ steps: 1 });
    for (const { loss, policyLoss, klLoss, distillLoss } of results[0]?.metrics.updates ?? []) {
      expect(loss).toBeCloseTo(policyLoss + 0.001 * klLoss + 0.5 * distillLoss, 10);
    }
  });
});

describe("same seed, same run", () => {
  test("bit for bit", async () => {
    const [a, b] = [await train(), await train()];
    expect(timeless(b.results.map(({ metrics }) => metrics))).toEqual(
      timeless(a.results.map(({ metrics }) => metrics)),
    );
    expect(b.weights).toEqual(a.weights);
    const other = await train({ seed: 4 });
    expect(other.weights).not.toEqual(a.weights);
  });

  test("whether or not it is measured, checked or written down", async () => {
    const a = await train();
    const b = await train({
      measureEvery: 0,
      startupCheck: { trajectories: 0 },
      runFolder: scratch("written"),
    });
    expect(b.weights).toEqual(a.weights);
  });

  test("micro-batches change nothing beyond rounding", async () => {
    const [a, b] = [await train({ steps: 1 }), await train({ steps: 1, microBatchTokens: 1 })];
    // AdamW divides by the root of the second moment, so a rounding of a tiny gradient shows in full.
    expect(gap(a.weights, b.weights)).toBeLessThan(1e-4);
  });
});

describe("failed searches", () => {
  test("their trajectories have no part in anything", async () => {
    let calls = 0;
    const search: typeof TINY_RETRIEVER.search = async (queries, topK) => {
      if (queries.length === 1 && calls++ % 3 === 0) throw new Error("down");
      if (queries.length > 1) throw new Error("one at a time");
      return TINY_RETRIEVER.search(queries, topK);
    };
    const { results } = await train({
      retriever: { search },
      search: { maxFailedShare: 0.9, outage: "fail" },
      steps: 1,
    });
    const [{ metrics, groups }] = results as [TrainingStepResult];
    const lost = groups.flat().filter(({ trajectory }) => trajectory.status === "search failed");
    expect(lost.length).toBeGreaterThan(0);
    expect(metrics.rollout.statuses["search failed"]).toBe(lost.length);
    for (const { reward, advantage, critique } of lost)
      expect([reward, advantage, critique]).toEqual([null, null, undefined]);
    expect(metrics.updates.reduce((sum, { policyTokens }) => sum + policyTokens, 0)).toBeLessThan(
      metrics.rollout.policyTokens,
    );
  });

  test("an outage ends the run and leaves the policy alone", async () => {
    const policy = await fresh();
    const before = await allWeights(policy);
    const search = async () => {
      throw new Error("no route to host");
    };
    await expect(train({ policy, retriever: { search } })).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
    });
    expect(await allWeights(policy)).toEqual(before);
  });
});

test("another temperature is that of rollout, training, reference and teacher", async () => {
  const { results } = await train({ sampling: { temperature: 0.7 }, steps: 1 });
  expect(results[0]?.metrics).toMatchObject({ rolloutGap: 0, reference: { k3: 0 } });
});

test("an abort ends the loop with its reason and releases what was held", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  const run = train({
    signal: controller.signal,
    onProgress: ({ step, done }) => {
      if (step === 1 && done === 3) controller.abort(reason);
    },
  });
  await expect(run).rejects.toMatchObject({ code: "ABORTED", cause: reason });
});

test("a question whose prompt fits no context ends its trajectories, not the run", async () => {
  const long = { id: "long", question: "colour of ann ? ".repeat(60), goldAnswers: ["red"] };
  const { results } = await train({
    questions: [long, ...TINY_QUESTIONS],
    questionsPerStep: 9,
    steps: 1,
    runFolder: scratch("long-question"),
  });
  const [{ groups, metrics } = { groups: [], metrics: undefined }] = results;
  const truncated = groups.flat().filter(({ trajectory }) => trajectory.question.id === "long");
  expect(truncated.map(({ trajectory }) => trajectory.status)).toEqual(Array(5).fill("truncated"));
  expect(metrics?.updates.map(({ skipped }) => skipped)).toEqual([null, null]);
  await expect(
    train({ questions: [long], questionsPerStep: 1, steps: 1, runFolder: scratch("only-long") }),
  ).resolves.toBeDefined();
});

test("prompts of which none fits the context are the reason that is given for a run without answers", async () => {
  const questions = TINY_QUESTIONS.map((question) => ({ ...question, question: "ann ".repeat(120) }));
  const warnings: string[] = [];
  await train({ questions, steps: 1, onWarning: (warning) => warnings.push(warning) });
  expect(warnings).toEqual([
    expect.stringMatching(/prompts have up to \d+ tokens, .* may have \d+ \(the protocol's maxTokens\)/),
  ]);
});

test("a reward that returns none is refused; one that never answers ends with the signal", async () => {
  const reward = (score: () => unknown) => ({ reward: { name: "own", score } as never });
  await expect(train(reward(() => undefined))).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("reward of trajectory 0-0-0"),
  });
  const controller = new AbortController();
  const waiting = () => {
    setImmediate(() => controller.abort());
    return new Promise(() => {});
  };
  await expect(train({ ...reward(waiting), signal: controller.signal })).rejects.toMatchObject({
    code: "ABORTED",
  });
});

test("evaluations come before the first step, when they are due, and behind the last", async () => {
  const questions = [
    { id: "a", question: "colour of ann ? .", goldAnswers: ["red"] },
    { id: "b", question: "colour of bob ? .", goldAnswers: ["blue"] },
  ];
  const evaluation = { questions, every: 3, modes: ["greedy", "sampled"] as const, corpus: "tiny" };
  const { results } = await train({ evaluation });
  expect(
    results.map(({ evaluations }) => evaluations.map(({ stepsDone, mode }) => `${stepsDone} ${mode}`)),
  ).toEqual([["0 greedy", "0 sampled"], [], ["3 greedy", "3 sampled"], ["4 greedy", "4 sampled"]]);
  const report = results[0]?.evaluations[0]?.report;
  expect(report?.settings).toMatchObject({ protocol: "tiny", questions: 2, sampling: { temperature: 0 } });
  expect(report?.results.length).toBe(2);
});

test("it learns: the reward rises", async () => {
  const { results } = await train({ steps: 30, questionsPerStep: 8, groupSize: 8, measureEvery: 0 });
  const rewards = results.map(({ metrics }) => metrics.rollout.reward ?? 0);
  const late = rewards.slice(-5).reduce((a, b) => a + b) / 5;
  expect(rewards[0]).toBeLessThan(0.7);
  expect(late).toBeGreaterThan(0.85);
});

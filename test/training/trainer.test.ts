import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { timeless } from "./timeless.js";

let root: string;
let warm: string;
const policies: Policy[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-trainer-"));
  warm = join(root, "warm");
  using policy = await warmPolicy();
  await policy.save(warm);
});
afterAll(async () => {
  for (const policy of policies) policy.dispose();
  await rm(root, { recursive: true, force: true });
});

/** The warm policy anew. */
async function fresh(): Promise<Policy> {
  const policy = await Policy.load(warm, { compute: "f32" });
  policies.push(policy);
  return policy;
}

const OPTIONS = {
  retriever: TINY_RETRIEVER,
  judge: TINY_JUDGE,
  questions: TINY_QUESTIONS,
  protocol: TINY_PROTOCOL,
  steps: 4,
  questionsPerStep: 6,
  groupSize: 5,
  learningRate: { kind: "constant", learningRate: 2e-3 },
  distillation: { weight: 0.5 },
  decoder: { cacheTokens: 8192 },
  measureEvery: 2,
  seed: 3,
} satisfies Omit<HindSearchOptions, "policy">;

interface Run {
  policy: Policy;
  results: TrainingStepResult[];
  weights: number[];
}

async function train(options: Partial<HindSearchOptions> = {}): Promise<Run> {
  const policy = options.policy ?? (await fresh());
  const results: TrainingStepResult[] = [];
  for await (const result of new HindSearchTrainer({ ...OPTIONS, ...options, policy })) results.push(result);
  return { policy, results, weights: await allWeights(policy) };
}

async function allWeights(policy: Policy): Promise<number[]> {
  const arrays = await Promise.all(policy.parameters.map(({ name }) => policy.weight(name)));
  return arrays.flatMap((array) => [...array]);
}

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
      runFolder: join(root, "written"),
    });
    expect(b.weights).toEqual(a.weights);
  });

  test("micro-batches change nothing beyond rounding", async () => {
    const [a, b] = [await train({ steps: 1 }), await train({ steps: 1, microBatchTokens: 1 })];
    // AdamW divides by the root of the second moment, so a rounding of a tiny gradient shows in full.
    expect(gap(a.weights, b.weights)).toBeLessThan(1e-4);
  });
});

describe("resume", () => {
  test("N steps are k steps, an interruption, and N - k steps, bit for bit", async () => {
    const evaluation = {
      questions: [{ ...TINY_QUESTIONS[0], question: "colour of bob of ann ?" }],
      every: 2,
    } as never;
    const options = { steps: 6, checkpointEvery: 2, keepCheckpoints: 1, evaluation };
    const whole = await train({ ...options, runFolder: join(root, "whole") });

    const runFolder = join(root, "resumed");
    const interrupted = new HindSearchTrainer({ ...OPTIONS, ...options, runFolder, policy: await fresh() });
    for await (const { step } of interrupted) if (step === 4) break;
    // Two steps behind the checkpoint of step 4 were lost: they are made again, and their records too.
    const resumed = await train({ ...options, runFolder, resume: true });
    expect(resumed.results.map(({ step }) => step)).toEqual([4, 5]);
    expect(resumed.weights).toEqual(whole.weights);
    for (const log of ["metrics", "trajectories"]) {
      const read = async (run: string) =>
        (await readFile(join(root, run, `${log}.jsonl`), "utf8"))
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line));
      expect(timeless(await read("resumed"))).toEqual(timeless(await read("whole")));
    }
  });

  test("a checkpoint's model folder loads and is the policy", async () => {
    const runFolder = join(root, "saved");
    const { policy, results } = await train({ runFolder, steps: 2 });
    const folder = results.at(-1)?.checkpoint?.folder ?? "";
    using loaded = await Policy.load(join(folder, "model"), { compute: "f32" });
    expect(await allWeights(loaded)).toEqual(await allWeights(policy));
  });

  test("damaged state is refused or skipped, with the reason", async () => {
    const runFolder = join(root, "damaged");
    await train({ runFolder, steps: 2, checkpointEvery: 1, keepCheckpoints: 1 });
    const checkpoints = join(runFolder, "checkpoints");
    const file = join(checkpoints, "step-00000002", "trainer.json");
    const marker = join(checkpoints, "step-00000002", "complete.json");
    const text = await readFile(file, "utf8");
    const again = () => train({ runFolder, steps: 3, resume: true, onWarning: () => {} });
    for (const state of [text.replace('"step": 2', '"step": 1'), "null".padEnd(text.length)]) {
      await writeFile(file, state);
      await expect(again()).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    }
    await writeFile(marker, "null");
    expect((await again()).results.map(({ step }) => step)).toEqual([0, 1, 2]);
    await rm(checkpoints, { recursive: true });
    await writeFile(checkpoints, "");
    await expect(again()).rejects.toMatchObject({ code: "IO" });
    await writeFile(join(runFolder, "config.json"), "null");
    await expect(again()).rejects.toMatchObject({ code: "IO" });
  });

  test("another initial policy is refused: it would be another teacher", async () => {
    const runFolder = join(root, "other-teacher");
    await train({ runFolder, steps: 2 });
    using other = await warmPolicy(2, 5);
    const resumed = train({ runFolder, steps: 3, resume: true, policy: other });
    await expect(resumed).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test("other settings are allowed and named; a run is not overwritten; resume starts one that is not there", async () => {
    const runFolder = join(root, "changed");
    const warnings: string[] = [];
    const onWarning = (text: string) => warnings.push(text);
    await train({ runFolder, steps: 1, resume: true, onWarning });
    expect(warnings).toEqual([]);
    await expect(train({ runFolder, steps: 1 })).rejects.toThrow(/already holds a run/);
    await train({ runFolder, steps: 2, groupSize: 3, resume: true, onWarning });
    expect(warnings).toEqual([expect.stringMatching(/other settings than it started with: .*groupSize/)]);
  });
});

describe("terms", () => {
  test("distillation off, weight 0 and no judge are the same plain GRPO", async () => {
    const off = await train({ distillation: false });
    const zero = await train({ distillation: { weight: 0 } });
    const { judge: _, distillation: __, ...plain } = OPTIONS;
    const policy = await fresh();
    for await (const result of new HindSearchTrainer({ ...plain, policy }))
      expect(result.metrics.judge).toBeUndefined();
    expect(zero.weights).toEqual(off.weights);
    expect(await allWeights(policy)).toEqual(off.weights);
    // On measured steps the gaps are taken all the same: the control that every comparison needs.
    expect(zero.results.map(({ metrics }) => metrics.distillation !== undefined)).toEqual([
      true,
      false,
      true,
      false,
    ]);
    const on = await train();
    expect(on.weights).not.toEqual(off.weights);
  });

  test("groups with equal rewards have no policy gradient, and all-fail groups keep their distillation", async () => {
    const reward = { name: "none", score: () => ({ reward: 0, components: {} }) };
    const optimizer = { weightDecay: 0 };
    const still = await train({ reward, optimizer, kl: false, distillation: false });
    expect(
      still.results.map(({ metrics }) => metrics.updates.map(({ gradientNorm }) => gradientNorm)),
    ).toEqual(Array(4).fill([0, 0]));
    expect(still.weights).toEqual(await allWeights(await fresh()));

    const moved = await train({ reward, optimizer, kl: false });
    expect(moved.results[0]?.metrics.rollout.groups).toMatchObject({ "all-fail": 6, mixed: 0 });
    expect(moved.results[0]?.metrics.gradients).toMatchObject({ policy: 0, ratio: null, cosine: null });
    expect(moved.weights).not.toEqual(still.weights);
    expect(
      moved.results.every(({ metrics }) => metrics.updates.every(({ policyLoss }) => policyLoss === 0)),
    ).toBe(true);
  });

  test("a hint that changes nothing has no weight while the policy is the teacher", async () => {
    // With this protocol the hinted prompt is the plain one, to the token.
    const protocol = { ...TINY_PROTOCOL, prompt: (question: string) => [{ text: question, trusted: false }] };
    const { results } = await train({ protocol, steps: 1, miniBatches: 1 });
    const [{ metrics }] = results as [TrainingStepResult];
    const { distillation, updates } = metrics;
    expect(distillation?.gap.tokens).toBeGreaterThan(0);
    expect(distillation?.gap).toMatchObject({ mean: 0, meanWeight: 0, shareMoved: 0 });
    expect(updates[0]?.distillLoss).toBe(0);
  });

  test("a hint over the teacher's budget is counted, and its trajectory has no term", async () => {
    const { results } = await train({ steps: 1, distillation: { weight: 0.5, maxTeacherTokens: 10 } });
    const [{ metrics, groups }] = results as [TrainingStepResult];
    expect(metrics.judge?.overBudget).toBe(metrics.judge?.calls);
    expect(metrics.distillation?.gap.tokens).toBe(0);
    expect(groups.flat().every(({ teacherLogProbs }) => teacherLogProbs === undefined)).toBe(true);
    expect(
      metrics.updates.every(({ distillLoss, distillTokens }) => distillLoss === 0 && distillTokens === 0),
    ).toBe(true);
  });

  test("a judge that fails leaves GRPO as it is and is counted", async () => {
    const judge = { critique: async () => ({ status: "unparsable", reason: "no marker" }) as const };
    const broken = await train({ judge });
    const off = await train({ distillation: false });
    expect(broken.weights).toEqual(off.weights);
    const [{ metrics }] = broken.results as [TrainingStepResult];
    expect(metrics.judge?.failures).toEqual({ unparsable: metrics.judge?.calls });
    expect(metrics.judge?.failureShare).toBe(1);
  });

  test("the judge sees gold answers only if it may", async () => {
    for (const judgeSeesGold of [true, false]) {
      const seen = new Set<boolean>();
      const judge = {
        critique: async ({ goldAnswers }: { goldAnswers: readonly string[] | null }) => {
          seen.add(goldAnswers !== null);
          return { status: "ok", text: "ann" } as const;
        },
      };
      await train({ judge, steps: 1, distillation: { judgeSeesGold } });
      expect([...seen]).toEqual([judgeSeesGold]);
    }
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
    const { results } = await train({ retriever: { search }, search: { maxFailedShare: 0.9 }, steps: 1 });
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

describe("what is refused", () => {
  const refuse = async (options: Partial<HindSearchOptions>, message: RegExp) => {
    const policy = await fresh();
    expect(() => new HindSearchTrainer({ ...OPTIONS, ...options, policy })).toThrow(message);
  };
  test("sampling that cannot be trained with, with the reason", async () => {
    await refuse({ sampling: { topP: 0.9 } }, /truncated support .*topP 0.9.*importance ratios/);
    await refuse({ sampling: { topK: 20 } }, /topK 20/);
    await refuse({ sampling: { minP: 0.1 } }, /minP 0.1/);
    await refuse({ sampling: { temperature: 0 } }, /temperature 0.*had an advantage/);
  });

  test("evaluation questions among the training questions", async () => {
    const questions = [{ id: "x", question: " Colour of ANN ?", goldAnswers: ["red"] }];
    await refuse({ evaluation: { questions } }, /1 of 1 evaluation questions.*would reach the judge/);
  });

  test("options that could have no effect, and numbers out of range", async () => {
    await refuse({ judge: undefined as never }, /no judge/);
    await refuse({ groupSize: 0 }, /groupSize is 0/);
    await refuse({ steps: 1.5 }, /steps is 1.5/);
    await refuse({ seed: -1 }, /seed is -1/);
    await refuse({ resume: true }, /runFolder/);
    await refuse({ protocol: { ...TINY_PROTOCOL, maxTokens: 97 } }, /maxTokens is 97.*96 positions/);
    await refuse({ learningRate: { kind: "cosine", learningRate: 1 } }, /totalSteps/);
  });

  test("what would be ignored, or change the run without a word", async () => {
    const wrong: [object, RegExp][] = [
      [{ stpes: 3 }, /stpes/],
      [{ policy: null }, /policy/],
      [{ retriever: {} }, /retriever: must have a method search/],
      [{ judge: {} }, /judge: must have a method critique/],
      [{ reward: {} }, /reward/],
      [{ protocol: {} }, /protocol/],
      [{ questions: [] }, /questions/],
      [{ questions: [{ id: "x" }] }, /questions\[0\] must have a question/],
      [{ questions: [{ id: "x", question: "q", goldAnswers: [] }] }, /questions\[0\].*at least one/],
      [{ evaluation: { every: 3 } }, /evaluation.questions/],
      [{ evaluation: { questions: [{}] } }, /evaluation.questions\[0\]/],
      [{ evaluation: { questions: TINY_QUESTIONS, modes: ["beam"] } }, /evaluation.modes/],
      [{ successThreshold: Number.NaN }, /successThreshold/],
      [{ distillation: { tokenScope: "foo" } }, /tokenScope/],
      [{ distillation: { trajectoryScope: "foo" } }, /trajectoryScope/],
      [{ distillation: { hintControl: "foo" } }, /hintControl/],
      [{ distillation: { judgeSeesGold: "no" } }, /judgeSeesGold/],
      [{ distillation: { judgeDeadline: Number.POSITIVE_INFINITY } }, /judgeDeadline/],
      [{ distillation: { schedule: { kind: "foo", steps: 2 } } }, /kind is foo/],
      [{ learningRate: { kind: "foo", learningRate: 1 } }, /kind is foo/],
      [{ advantage: { baseline: "foo" } }, /baseline/],
      [{ optimizer: { betaOne: 0.9 } }, /betaOne/],
      [{ search: { searchConcurrency: 0 } }, /searchConcurrency is 0/],
      [{ search: { maxFailedShare: Number.NaN } }, /maxFailedShare/],
      [{ startupCheck: { tolerance: Number.NaN } }, /tolerance/],
      [{ runFolder: "" }, /runFolder/],
      [{ onWarning: 5 }, /onWarning/],
      [{ signal: {} }, /signal/],
    ];
    const policy = await fresh();
    for (const [options, message] of wrong) {
      const make = () => new HindSearchTrainer({ ...OPTIONS, policy, ...options } as HindSearchOptions);
      expect(make, JSON.stringify(options)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
      expect(make).toThrow(message);
    }
  });

  test("two loops over one trainer at once", async () => {
    const trainer = new HindSearchTrainer({ ...OPTIONS, policy: await fresh() });
    const first = trainer[Symbol.asyncIterator]();
    await first.next();
    await expect(trainer[Symbol.asyncIterator]().next()).rejects.toThrow(/running already/);
    await first.return?.();
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
    runFolder: join(root, "long-question"),
  });
  const [{ groups, metrics } = { groups: [], metrics: undefined }] = results;
  const truncated = groups.flat().filter(({ trajectory }) => trajectory.question.id === "long");
  expect(truncated.map(({ trajectory }) => trajectory.status)).toEqual(Array(5).fill("truncated"));
  expect(metrics?.updates.map(({ skipped }) => skipped)).toEqual([null, null]);
  await expect(
    train({ questions: [long], questionsPerStep: 1, steps: 1, runFolder: join(root, "only-long") }),
  ).resolves.toBeDefined();
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

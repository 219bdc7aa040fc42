import { describe, expect, test } from "vitest";
import { TINY_PROTOCOL } from "../../examples/own-loop/tiny-world.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { allWeights, OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";

const { fresh, train } = tinyTrainer();

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

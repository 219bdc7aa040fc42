import { describe, expect, test } from "vitest";
import { TINY_PROTOCOL, TINY_QUESTIONS } from "../../examples/own-loop/tiny-world.js";
import type { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import { resolveSettings } from "../../lib/training/settings.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";

const { fresh } = tinyTrainer();

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
    await refuse({ sampling: { temperature: 1e-38 } }, /temperature 1e-38.*0\.0001 to 10000/);
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
      [{ search: { maxOutageMs: 0.5 } }, /maxOutageMs is 0.5/],
      [{ search: { outage: "wait" } }, /outage is wait, expected "pause" or "fail"/],
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

test("how far log-probs of a rollout may be off depends on the device, unless it is said; the device is a setting", async () => {
  const { family, parameters, config } = await fresh();
  const on = (part: Pick<Policy, "device" | "compute">, options: Partial<HindSearchOptions> = {}) => {
    const policy = { family, parameters, config, ...part } as Policy;
    const { startupCheck, participants } = resolveSettings({ ...OPTIONS, ...options, policy });
    return { ...startupCheck, policy: participants.policy };
  };
  expect(on({ device: "cpu", compute: "bf16" })).toEqual({
    trajectories: 8,
    tolerance: 0,
    policy: expect.stringMatching(/computed in bf16$/),
  });
  expect(on({ device: "cuda", compute: "bf16" })).toMatchObject({
    tolerance: 0.25,
    policy: expect.stringMatching(/computed in bf16 on cuda$/),
  });
  expect(on({ device: "cuda", compute: "f32" }).tolerance).toBe(1e-4);
  const said = { startupCheck: { trajectories: 2, tolerance: 0.5 } };
  expect(on({ device: "cuda", compute: "f32" }, said)).toMatchObject(said.startupCheck);
});

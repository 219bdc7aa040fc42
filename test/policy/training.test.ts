import { describe, expect, test } from "vitest";
import { batchTotals, type TrainingSequence } from "../../lib/policy/batch.js";
import type { Objective } from "../../lib/policy/objective.js";
import type { Policy } from "../../lib/policy/policy.js";
import type { StepOptions } from "../../lib/policy/policy-options.js";
import { randomTokens, smallPolicy } from "../support/small-policy.js";

const tokens = randomTokens(30, 1);
const afterPrompt = Array.from(tokens, (_, position) => Number(position >= 10));
const supervised = [{ tokens, weights: afterPrompt }];

async function weightsOf(policy: Policy): Promise<Float64Array> {
  const all: number[] = [];
  for (const { name } of policy.parameters) all.push(...(await policy.weight(name)));
  return Float64Array.from(all);
}

async function gradientsOf(policy: Policy): Promise<Float64Array> {
  const all: number[] = [];
  for (const { name } of policy.parameters) all.push(...(await policy.gradient(name)));
  return Float64Array.from(all);
}

const norm = (values: Float64Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));

/** AdamW as its paper has it, in float64. */
class ReferenceAdamW {
  readonly #first: Float64Array;
  readonly #second: Float64Array;
  #step = 0;

  constructor(readonly weights: Float64Array) {
    this.#first = new Float64Array(weights.length);
    this.#second = new Float64Array(weights.length);
  }

  update(gradients: Float64Array, { learningRate, ...options }: StepOptions): void {
    const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0.01, maxGradientNorm = 1 } = options;
    this.#step++;
    const scale = maxGradientNorm === 0 ? 1 : Math.min(1, maxGradientNorm / (norm(gradients) + 1e-6));
    for (const [i, gradient] of gradients.entries()) {
      const g = gradient * scale;
      const m = beta1 * (this.#first[i] as number) + (1 - beta1) * g;
      const v = beta2 * (this.#second[i] as number) + (1 - beta2) * g * g;
      this.#first[i] = m;
      this.#second[i] = v;
      const meanHat = m / (1 - beta1 ** this.#step);
      const rootHat = Math.sqrt(v / (1 - beta2 ** this.#step));
      const decayed = (this.weights[i] as number) * (1 - learningRate * weightDecay);
      this.weights[i] = decayed - (learningRate * meanHat) / (rootHat + epsilon);
    }
  }
}

describe("step", () => {
  test.for<[string, StepOptions]>([
    ["defaults", { learningRate: 1e-3 }],
    ["no clipping, strong decay", { learningRate: 1e-2, maxGradientNorm: 0, weightDecay: 0.3 }],
    ["other moments", { learningRate: 1e-3, beta1: 0.5, beta2: 0.9, epsilon: 1e-4, maxGradientNorm: 0.1 }],
  ])("is AdamW: %s", async ([, options]) => {
    using policy = await smallPolicy("qwen2");
    const reference = new ReferenceAdamW(await weightsOf(policy));
    for (let step = 1; step <= 5; step++) {
      await policy.forwardBackward(supervised, { crossEntropy: {} });
      const gradients = await gradientsOf(policy);
      reference.update(gradients, options);
      const result = await policy.step(options);
      expect(result).toEqual({ gradientNorm: expect.closeTo(norm(gradients), 3), skipped: false, step });
      const weights = await weightsOf(policy);
      const error = norm(weights.map((weight, i) => weight - (reference.weights[i] as number)));
      // What both have done so far, as the measure.
      expect(error).toBeLessThan(1e-5 * norm(weights));
      expect(await policy.gradientNorm()).toBe(0);
    }
  });

  test("of small learning rates adds up: weights are float32 whatever is computed in", async () => {
    using policy = await smallPolicy("qwen2", { compute: "bf16" });
    const before = await policy.weight("model.norm.weight");
    for (let step = 0; step < 100; step++) {
      await policy.forwardBackward(supervised, { crossEntropy: {} });
      await policy.step({ learningRate: 1e-6, weightDecay: 0 });
    }
    const after = await policy.weight("model.norm.weight");
    const moved = after.map((weight, i) => Math.abs(weight - (before[i] as number)));
    // 100 updates of 1e-6 each, in the same direction for most; a bf16 near 1 would need 4e-3 to move at all.
    expect(Math.max(...moved)).toBeGreaterThan(8e-5);
    expect(Math.max(...moved)).toBeLessThan(1.1e-4);
  });

  test("with a gradient that is not finite is skipped, counted and harmless", async () => {
    using policy = await smallPolicy("qwen2");
    const batch = [{ ...supervised[0], tokens, weights: afterPrompt.map((weight) => weight * 1e38) }];
    const before = await weightsOf(policy);
    const totals = { ...batchTotals(batch), weight: 1e-30 };
    await policy.forwardBackward(batch, { crossEntropy: {} }, { totals });
    const result = await policy.step({ learningRate: 1e-3 });
    expect(result).toMatchObject({ skipped: true, step: 0 });
    expect(Number.isFinite(result.gradientNorm)).toBe(false);
    expect(await weightsOf(policy)).toEqual(before);
    // The bad gradient is gone.
    await policy.forwardBackward(supervised, { crossEntropy: {} });
    expect(await policy.step({ learningRate: 1e-3 })).toMatchObject({ skipped: false, step: 1 });
  });
});

describe("the HindSearch term", () => {
  /** Loss and gradient of a batch of one distilled token, given its log-prob minus the teacher's. */
  async function term(teacherGap: number, objective: NonNullable<Objective["distill"]> = {}) {
    using policy = await smallPolicy("qwen2");
    const [scored] = await policy.score([{ tokens }]);
    const logProb = scored?.logProbs[20] as number;
    const mask = Array.from(tokens, (_, position) => Number(position === 20));
    const teacherLogProbs = Array.from(tokens, () => logProb + teacherGap);
    const result = await policy.forwardBackward(
      [{ tokens, policyMask: afterPrompt, distillMask: mask, teacherLogProbs }],
      { distill: { weight: 1, ...objective } },
    );
    const size = await policy.gradientNorm();
    await policy.zeroGradients();
    await policy.forwardBackward([{ tokens, weights: mask }], { crossEntropy: {} });
    return { loss: result.distillLoss, logProb, pull: size / (await policy.gradientNorm()) };
  }

  test.for([
    [0.7, 0.7],
    [2.9, 1],
    [0.001, 0.001],
    [0, 0],
    [-1, 0],
  ] as const)("teacher ahead by %f pulls with %f", async ([gap, expected]) => {
    const { loss, logProb, pull } = await term(gap);
    expect(loss).toBeCloseTo(-expected * logProb, 4);
    expect(pull).toBeCloseTo(expected, 4);
  });

  test("switches: other clamp, gradient through the weight", async () => {
    expect((await term(2.5, { clamp: [0, 2] })).pull).toBeCloseTo(2, 4);
    expect((await term(-3, { clamp: [Number.NEGATIVE_INFINITY, 1] })).pull).toBeCloseTo(3, 3);
    const { logProb, pull } = await term(0.5, { detach: false });
    // dL/dlogp = 2 logp - teacher = -(0.5 + |logp|).
    expect(pull).toBeCloseTo(0.5 - logProb, 3);
  });

  test("is exactly nothing without a distilled token; other terms are untouched", async () => {
    using policy = await smallPolicy("qwen2");
    const sequence: TrainingSequence = {
      tokens,
      policyMask: afterPrompt,
      distillMask: afterPrompt.map(() => 0),
      oldLogProbs: afterPrompt.map(() => -5),
      advantages: 1,
    };
    const { loss, distillLoss, policyLoss, distillTokens } = await policy.forwardBackward([sequence], {
      policy: {},
      distill: {},
    });
    expect({ distillLoss, distillTokens }).toEqual({ distillLoss: 0, distillTokens: 0 });
    expect(loss).toBe(policyLoss);
    const gradients = await gradientsOf(policy);
    await policy.zeroGradients();
    await policy.forwardBackward([sequence], { policy: {} });
    expect(await gradientsOf(policy)).toEqual(gradients);
  });

  test("default weight and normaliser: 0.01 times the mean over distilled tokens", async () => {
    using policy = await smallPolicy("qwen2");
    const [scored] = await policy.score([{ tokens }]);
    const logProbs = Array.from(scored?.logProbs ?? []);
    const distillMask = Array.from(tokens, (_, position) => Number(position >= 12 && position < 17));
    const teacherLogProbs = logProbs.map((logProb) => logProb + 0.5);
    const sequence = { tokens, policyMask: afterPrompt, distillMask, teacherLogProbs };
    const result = await policy.forwardBackward([sequence], { distill: {} });
    const mean = logProbs.slice(12, 17).reduce((sum, logProb) => sum - 0.5 * logProb, 0) / 5;
    expect(result.distillLoss).toBeCloseTo(mean, 4);
    expect(result.loss).toBeCloseTo(0.01 * mean, 6);
    const byPolicy = await policy.forwardBackward([sequence], { distill: { normalizer: "policy-tokens" } });
    expect(byPolicy.distillLoss).toBeCloseTo((mean * 5) / 20, 4);
    const byFixed = await policy.forwardBackward([sequence], { distill: { normalizer: "fixed", fixed: 2 } });
    expect(byFixed.distillLoss).toBeCloseTo((mean * 5) / 2, 4);
  });
});

describe("signal numbers", () => {
  test("a first update has ratio 1; stale log-probs show in the fractions", async () => {
    using policy = await smallPolicy("qwen2");
    const [scored] = await policy.score([{ tokens }]);
    const fresh = { tokens, policyMask: afterPrompt, oldLogProbs: scored?.logProbs ?? [], advantages: 1 };
    expect(await policy.forwardBackward([fresh], { policy: {} })).toMatchObject({
      ratioMean: 1,
      ratioMax: 1,
      logRatioMaxAbs: 0,
      clipFractionLow: 0,
      clipFractionHigh: 0,
      policyTokens: 20,
    });
    // Everything has become e^0.5 times as likely.
    const stale = { ...fresh, oldLogProbs: Array.from(scored?.logProbs ?? [], (logProb) => logProb - 0.5) };
    expect(await policy.forwardBackward([stale], { policy: {} })).toMatchObject({
      clipFractionHigh: 1,
      ratioMean: expect.closeTo(Math.exp(0.5), 5),
    });
    const far = { ...fresh, oldLogProbs: Array.from(tokens, () => -200) };
    const result = await policy.forwardBackward([far], { policy: {} });
    expect(result.ratioClamped).toBe(20);
    expect(Number.isFinite(result.loss)).toBe(true);
    expect(Number.isFinite(await policy.gradientNorm())).toBe(true);
  });
});

describe("batches", () => {
  const refused = async (batch: TrainingSequence[], objective: Objective, message: RegExp) => {
    using policy = await smallPolicy("qwen2");
    await expect(policy.forwardBackward(batch, objective)).rejects.toMatchObject({
      name: "HindsearchError",
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(message),
    });
    expect(await policy.gradientNorm()).toBe(0);
  };
  const whole = { tokens, policyMask: afterPrompt, oldLogProbs: afterPrompt, advantages: 1 };

  test("that lack what the objective needs are refused", async () => {
    await refused([{ tokens, policyMask: afterPrompt }], { policy: {} }, /sequence 0 has no oldLogProbs/);
    await refused([whole], { kl: {} }, /no referenceLogProbs/);
    await refused(
      [whole, { tokens, distillMask: afterPrompt }],
      { distill: {} },
      /sequence 1 has no teacherLog/,
    );
    await refused([whole], { crossEntropy: {} }, /no weights/);
  });

  test("with columns of another length than the tokens are refused", async () => {
    await refused(
      [{ ...whole, oldLogProbs: [1, 2] }],
      { policy: {} },
      /oldLogProbs of sequence 0 has 2 entries/,
    );
    await refused([{ ...whole, policyMask: [1] }], { policy: {} }, /policyMask of sequence 0 has 1 entries/);
  });

  test("with numbers that are none inside a mask are refused, outside they do not matter", async () => {
    const nan = Array.from(tokens, (_, position) => (position === 15 ? Number.NaN : -1));
    await refused([{ ...whole, oldLogProbs: nan }], { policy: {} }, /sequence 0, position 15/);
    await refused([{ ...whole, advantages: Number.NaN }], { policy: {} }, /advantages/);
    using policy = await smallPolicy("qwen2");
    const outside = Array.from(tokens, (_, position) => (position < 10 ? Number.NaN : -1));
    const { loss } = await policy.forwardBackward([{ ...whole, oldLogProbs: outside }], { policy: {} });
    expect(Number.isFinite(loss)).toBe(true);
  });

  test("with the first token in a mask, or a distilled token the policy did not write, are refused", async () => {
    await refused([{ ...whole, policyMask: afterPrompt.map(() => 1) }], { policy: {} }, /first token/);
    await refused(
      [
        {
          tokens,
          policyMask: afterPrompt,
          distillMask: [0, 1, ...afterPrompt.slice(2)],
          teacherLogProbs: afterPrompt,
        },
      ],
      { distill: {} },
      /position 1/,
    );
  });

  test("with options out of range are refused", async () => {
    await refused([whole], { policy: { clipLow: -0.1 } }, /clipLow/);
    await refused([whole], { policy: { dualClip: 0.5 } }, /dualClip/);
    await refused([whole], { policy: { aggregation: "fixed-length" } }, /fixedLength/);
    await refused([whole], { policy: { aggregation: "mean" as "token-mean" } }, /aggregation/);
    await refused([whole], { policy: { weight: Number.NaN } }, /weight/);
  });

  test("whose sequences are all masked have no loss and no gradient", async () => {
    using policy = await smallPolicy("qwen2");
    const masked = { ...whole, policyMask: afterPrompt.map(() => 0) };
    for (const aggregation of ["token-mean", "sequence-mean-token-mean", "sequence-sum"] as const) {
      const { loss } = await policy.forwardBackward([masked, masked], { policy: { aggregation }, kl: {} });
      expect(loss).toBe(0);
    }
    expect(await policy.gradientNorm()).toBe(0);
  });

  test("masks of numbers beyond a byte are masks", async () => {
    using policy = await smallPolicy("qwen2");
    const large = { ...whole, policyMask: afterPrompt.map((value) => value * 256) };
    expect((await policy.forwardBackward([large], { policy: {} })).policyTokens).toBe(20);
  });
});

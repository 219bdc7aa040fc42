import { describe, expect, test } from "vitest";
import { tinyPolicy } from "../../examples/own-loop/tiny-world.js";
import type { Policy } from "../../lib/policy/policy.js";
import { type SupervisedOptions, SupervisedTrainer } from "../../lib/training/supervised.js";

const learningRate = { kind: "constant", learningRate: 3e-3 } as const;
const examples = [
  { tokens: [1, 9, 10, 11], weights: [0, 0, 1, 1] },
  { tokens: [1, 12, 13, 14, 15, 16], weights: [0, 1, 0.5, 0, 1, 1] },
  { tokens: [1, 17, 18], weights: [0, 1, 1] },
];

async function train(policy: Policy, options: Partial<SupervisedOptions> = {}) {
  const results = [];
  const trainer = new SupervisedTrainer({
    policy,
    examples,
    steps: 5,
    batchSize: 2,
    learningRate,
    ...options,
  });
  for await (const result of trainer) results.push(result);
  return { results, weights: await policy.weight("model.embed_tokens.weight") };
}

describe("SupervisedTrainer", () => {
  test("the loss is the weighted mean of -log p over the targets", async () => {
    using policy = await tinyPolicy();
    const scored = await policy.score(examples);
    let sum = 0;
    let weight = 0;
    for (const [b, { weights }] of examples.entries()) {
      for (const [t, w] of weights.entries()) {
        sum -= w * (scored[b]?.logProbs[t] as number);
        weight += w;
      }
    }
    const { results } = await train(policy, { examples: () => examples, steps: 1 });
    expect(results[0]?.loss).toBeCloseTo(sum / weight, 5);
    expect(results[0]).toMatchObject({ step: 0, tokens: 13, skipped: false, learningRate: 3e-3 });
  });

  test("it learns, and repeats itself bit for bit", async () => {
    using a = await tinyPolicy();
    using b = await tinyPolicy();
    const first = await train(a, { steps: 40 });
    const second = await train(b, { steps: 40 });
    expect(first.results.at(-1)?.loss).toBeLessThan((first.results[0]?.loss ?? 0) / 3);
    expect(second.weights).toEqual(first.weights);
  });

  test("a fixed set is gone through pass after pass", async () => {
    using policy = await tinyPolicy();
    const seen: number[][] = [];
    const spy = new Proxy(policy, {
      get(target, name) {
        if (name === "forwardBackward") {
          return (batch: { tokens: number[] }[], ...rest: []) => {
            seen.push(batch.map(({ tokens }) => tokens.length));
            return target.forwardBackward(batch, ...(rest as unknown as [object]));
          };
        }
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await train(spy, { steps: 6 });
    const order = seen.flat();
    for (const pass of [0, 3, 6, 9]) expect(order.slice(pass, pass + 3).sort()).toEqual([3, 4, 6]);
  });

  test("it goes on where another run stopped", async () => {
    using whole = await tinyPolicy();
    using parts = await tinyPolicy();
    const { weights } = await train(whole, { steps: 7 });
    await train(parts, { steps: 4 });
    expect((await train(parts, { steps: 7, startStep: 4 })).weights).toEqual(weights);
  });

  test("an abort ends it between two steps or inside one", async () => {
    using policy = await tinyPolicy();
    const controller = new AbortController();
    const trainer = new SupervisedTrainer({
      policy,
      examples,
      steps: 5,
      learningRate,
      signal: controller.signal,
    });
    const steps: number[] = [];
    const run = async () => {
      for await (const { step } of trainer) {
        steps.push(step);
        controller.abort();
      }
    };
    await expect(run()).rejects.toMatchObject({ code: "ABORTED" });
    expect(steps).toEqual([0]);
  });

  test("what makes no sense is refused", async () => {
    using policy = await tinyPolicy();
    const make = (options: Partial<SupervisedOptions>) => () =>
      new SupervisedTrainer({ policy, examples, steps: 1, learningRate, ...options });
    expect(make({ steps: 0 })).toThrow(/steps is 0/);
    expect(make({ batchSize: 1.5 })).toThrow(/batchSize is 1.5/);
    expect(make({ examples: [] })).toThrow(/no example/);
    expect(make({ learningRate: { kind: "cosine", learningRate: 1 } })).toThrow(/totalSteps/);
    const first = train(policy, { examples: [{ tokens: [1, 2], weights: [1, 1] }], batchSize: 1 });
    await expect(first).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

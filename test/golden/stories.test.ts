import { expect, test } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { difference, norm, readGolden } from "../support/golden.js";
import { describeShared, sharedPath } from "../support/shared.js";

describeShared("stories260k, a real trained model", () => {
  const reference = readGolden("data", "model", "stories260k", "reference.json");
  const load = (compute: "f32" | "bf16") =>
    Policy.load(sharedPath("data", "model", "stories260k"), { compute });

  test.for(["f32", "bf16"] as const)("tells its published story, %s", async (compute) => {
    const { prompt_ids: prompt, ids, text } = reference.greedy;
    using policy = await load(compute);
    const [told] = await policy.generate([prompt], {
      temperature: 0,
      maxNewTokens: ids.length - prompt.length,
    });
    expect([...prompt, ...(told?.tokens ?? [])]).toEqual(ids);
    expect(policy.tokenizer.decode(ids, { fromStart: true })).toBe(text);
    // The prompt is the BOS token alone, so the story begins with the space that stands before a text.
    expect(told?.text).toBe(` ${text}`);
    // The same story from its beginning in text.
    const [again] = await policy.generate([""], { temperature: 0, maxNewTokens: 20 });
    expect([...(again?.tokens ?? [])]).toEqual(ids.slice(1, 21));
  });

  test("logits of the first positions", async () => {
    using policy = await load("f32");
    const { ids, top5_ids, top5_logits, row0_first16, row7_all } = reference.logits_first_positions;
    const logits = await policy.logits(ids);
    const row = (index: number) => logits.subarray(index * 512, (index + 1) * 512);
    expect(difference(row(0).subarray(0, 16), row0_first16).max).toBeLessThan(1e-4);
    expect(difference(row(7), row7_all).max).toBeLessThan(1e-4);
    for (const [index, tokens] of top5_ids.entries()) {
      const found = tokens.map((id: number) => row(index)[id]);
      expect(difference(found, top5_logits[index]).max).toBeLessThan(1e-4);
    }
  });

  test("entropies of the first positions", async () => {
    using policy = await load("f32");
    const { ids, entropy } = reference.logits_first_positions;
    const [scored] = await policy.score([{ tokens: [...ids, 0] }], { entropy: true });
    expect(difference(scored?.entropies.subarray(1) ?? [], entropy).max).toBeLessThan(1e-5);
  });

  test("losses, gradients and one AdamW step", async () => {
    using policy = await load("f32");
    const { ids, nll, loss, grad_norm, grads, adamw } = reference.teacher_forced;
    const batch = [{ tokens: ids, weights: ids.map((_: number, index: number) => (index === 0 ? 0 : 1)) }];
    const result = await policy.forwardBackward(batch, { crossEntropy: {} });
    const found = (result.logProbs[0] as Float32Array).subarray(1).map((logProb) => -logProb);
    expect(difference(found, nll).max).toBeLessThan(2e-5);
    expect(Math.abs(result.loss - loss)).toBeLessThan(2e-6);
    expect(Math.abs((await policy.gradientNorm()) / grad_norm - 1)).toBeLessThan(1e-5);
    expect(Object.keys(grads).sort()).toEqual(policy.parameters.map(({ name }) => name).sort());
    for (const { name } of policy.parameters) {
      const gradient = await policy.gradient(name);
      const { l2, first8 } = grads[name];
      expect(Math.abs(norm(gradient) / l2 - 1), name).toBeLessThan(1e-4);
      expect(difference(gradient.subarray(0, 8), first8).max, name).toBeLessThan(1e-4 * l2);
    }
    const step = await policy.step({
      learningRate: adamw.lr,
      beta1: adamw.betas[0],
      beta2: adamw.betas[1],
      epsilon: adamw.eps,
      weightDecay: adamw.weight_decay,
      maxGradientNorm: adamw.clip_grad_norm,
    });
    expect(step).toEqual({ gradientNorm: expect.closeTo(grad_norm, 4), skipped: false, step: 1 });
    const after = await policy.forwardBackward(batch, { crossEntropy: {} });
    expect(Math.abs(after.loss - adamw.loss_after_one_step)).toBeLessThan(2e-5);
  });
});

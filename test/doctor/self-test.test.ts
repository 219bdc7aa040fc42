import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { type ReferenceSizes, referenceLogProbs } from "../../lib/doctor/reference-model.js";
import { selfTest, TOLERANCE } from "../../lib/doctor/self-test.js";

test("the engine is well within the tolerance in f32", async () => {
  const { logProb, gradient } = await selfTest("f32");
  expect(logProb).toBeLessThan(TOLERANCE.f32.logProb / 10);
  expect(gradient).toBeLessThan(TOLERANCE.f32.gradient / 10);
});

test("a wrong rotation, norm or matrix is far outside of it, in either type", () => {
  const sizes: ReferenceSizes = {
    hidden: 32,
    heads: 4,
    headDim: 8,
    intermediate: 48,
    vocabulary: 64,
    ropeTheta: 10_000,
  };
  const random = new Random("weights", 1);
  const fill = (length: number, value?: number) =>
    Float64Array.from({ length }, () => value ?? random.float() - 0.5);
  const layer = "model.layers.0.";
  const weights = () =>
    new Map<string, Float64Array>([
      ["model.embed_tokens.weight", fill(64 * 32)],
      [`${layer}input_layernorm.weight`, fill(32, 1)],
      [`${layer}post_attention_layernorm.weight`, fill(32, 1)],
      [`${layer}self_attn.q_proj.weight`, fill(32 * 32)],
      [`${layer}self_attn.k_proj.weight`, fill(8 * 32)],
      [`${layer}self_attn.v_proj.weight`, fill(8 * 32)],
      [`${layer}self_attn.o_proj.weight`, fill(32 * 32)],
      [`${layer}mlp.gate_proj.weight`, fill(48 * 32)],
      [`${layer}mlp.up_proj.weight`, fill(48 * 32)],
      [`${layer}mlp.down_proj.weight`, fill(32 * 48)],
      ["model.norm.weight", fill(32, 1)],
    ]);
  const tokens = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 23, 8, 46, 2, 6, 43];
  const right = weights();
  const expected = referenceLogProbs(tokens, sizes, right);
  const gap = (other: number[]) =>
    Math.max(...other.map((value, i) => Math.abs(value - (expected[i] as number))));
  const swapped = new Map(right).set(
    `${layer}mlp.gate_proj.weight`,
    right.get(`${layer}mlp.up_proj.weight`) as Float64Array,
  );
  const doubled = new Map(right).set(`${layer}input_layernorm.weight`, fill(32, 2));
  for (const found of [
    referenceLogProbs(tokens, { ...sizes, ropeTheta: 100 }, right),
    referenceLogProbs(tokens, sizes, swapped),
    referenceLogProbs(tokens, sizes, doubled),
  ]) {
    expect(gap(found)).toBeGreaterThan(2 * TOLERANCE.bf16.logProb);
  }
});

import { beforeAll, expect, test } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { bf16Allowance } from "../support/bf16-exceptions.js";
import { difference, GoldenArrays, goldenModels, norm, readGolden } from "../support/golden.js";
import { readGoldenBatch } from "../support/golden-batch.js";
import { goldenLosses } from "../support/golden-losses.js";
import { goldenLossesLeftOut } from "../support/golden-losses-left-out.js";
import { describeShared, sharedPath } from "../support/shared.js";

interface LargeTensor {
  norm: number;
  proj: number[];
  at_sample: number[];
  max_abs: [index: number, value: number];
}

interface GoldenCase {
  id: string;
  loss: number;
  grad_global_norm: number;
  small_full: string;
  full?: string;
  large: Record<string, LargeTensor>;
  observed_peer_bf16: Record<string, number>;
}

interface Expected {
  cases: GoldenCase[];
  parameters: Record<string, { shape: number[] }>;
  small_full_order: string[];
  full_order: string[];
  sample_index: Record<string, number[]>;
}

/** Sign i of projection k, as shared/golden/README.md defines it; -1 or +1 for the first `length` numbers. */
const signs = new Map<string, Float64Array>();
function projectionSigns(k: number, length: number): Float64Array {
  const key = `${k} ${length}`;
  let found = signs.get(key);
  if (found === undefined) {
    const mask = 2n ** 64n - 1n;
    found = Float64Array.from({ length }, (_, i) => {
      let z = (BigInt(i + 1) * 0x9e3779b97f4a7c15n + BigInt(k + 1) * 0xd1b54a32d192ed03n) & mask;
      z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
      z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
      return (z ^ (z >> 31n)) >> 63n ? -1 : 1;
    });
    signs.set(key, found);
  }
  return found;
}

test("the first signs are those of the golden README", () => {
  const text = (k: number) => Array.from(projectionSigns(k, 24), (sign) => (sign > 0 ? "+" : "-")).join("");
  expect(text(0)).toBe("++-+--+-+-++-+-+++-+--+-");
  expect(text(3)).toBe("+-+-++--+-+++-++---++++-");
});

/** Concatenated arrays cut by parameter. */
function cut(all: Float32Array, order: string[], { parameters }: Expected): Map<string, Float32Array> {
  let start = 0;
  return new Map(
    order.map((name) => {
      const size = (parameters[name]?.shape ?? []).reduce((product, side) => product * side, 1);
      start += size;
      return [name, all.subarray(start - size, start)];
    }),
  );
}

/** Errors of the four projections, each about as large as |gradient - expected|. */
function projectedErrors(gradient: Float32Array, large: LargeTensor): number[] {
  return large.proj.map((expected, k) => {
    const sign = projectionSigns(k, gradient.length);
    let projection = 0;
    for (let i = 0; i < gradient.length; i++) projection += (sign[i] as number) * (gradient[i] as number);
    return projection - expected;
  });
}

/** Largest errors allowed, by shared/golden/README.md; those of gradients are relative. */
function tolerances(model: string, golden: GoldenCase, compute: "f32" | "bf16") {
  const { id, loss, observed_peer_bf16: observed } = golden;
  if (compute === "f32") {
    return { loss: 2e-5 * Math.max(1, Math.abs(loss)), all: 1e-4, tensor: () => 1e-3 };
  }
  const tensor = Math.max(0.15, 2.5 * (observed.grad_worst_tensor_rel_err ?? Number.NaN));
  return {
    loss: bf16Allowance(model, id, "loss", 3 * (observed.loss_abs_err ?? Number.NaN) + 1e-3),
    all: Math.max(0.1, 2.5 * (observed.grad_global_rel_err ?? Number.NaN)),
    tensor: (name: string) => bf16Allowance(model, id, name, tensor),
  };
}

describeShared("golden losses and gradients", () => {
  for (const model of goldenModels) {
    const expected: Expected = readGolden("golden", "grads", model, "expected.json");
    const arrays = new GoldenArrays("golden", "grads", model, "expected.json");
    const batch = readGoldenBatch(model, arrays);

    test(`${model}: every loss is computed or left out for a reason`, () => {
      const ids = expected.cases.map(({ id }) => id).sort();
      expect(ids).toEqual([...Object.keys(goldenLosses), ...Object.keys(goldenLossesLeftOut)].sort());
    });

    for (const compute of ["f32", "bf16"] as const) {
      let policy: Policy;
      beforeAll(async () => {
        policy = await Policy.load(sharedPath("golden", "models", model), { compute });
        return () => policy.dispose();
      });

      test.for(expected.cases.filter(({ id }) => id in goldenLosses))(
        `${model}, ${compute}: $id`,
        async (golden) => {
          const tolerance = tolerances(model, golden, compute);
          const loss = (goldenLosses[golden.id] as (typeof goldenLosses)[string])(batch);
          await policy.zeroGradients();
          const result = await policy.forwardBackward(loss.batch, loss.objective, {
            microBatchTokens: 64, // several micro-batches
            ...(loss.totals && { totals: loss.totals }),
            ...(loss.temperature && { temperature: loss.temperature }),
          });
          expect(Math.abs(result.loss - golden.loss)).toBeLessThanOrEqual(tolerance.loss);

          const small = cut(arrays.get(golden.small_full), expected.small_full_order, expected);
          const full = golden.full && cut(arrays.get(golden.full), expected.full_order, expected);
          let estimatedSquares = 0;
          let fullSquares = 0;
          for (const { name } of policy.parameters) {
            const gradient = await policy.gradient(name);
            const relative = tolerance.tensor(name);
            const allowed = (size: number) => relative * Math.max(size, 1e-3 * golden.grad_global_norm);
            const known = small.get(name);
            if (known) {
              const error = difference(gradient, known).norm;
              expect(error, name).toBeLessThanOrEqual(allowed(norm(known)));
              estimatedSquares += error ** 2;
            } else {
              const large = golden.large[name] as LargeTensor;
              const most = allowed(large.norm);
              for (const error of projectedErrors(gradient, large)) {
                expect(Math.abs(error), name).toBeLessThanOrEqual(most);
                estimatedSquares += error ** 2 / large.proj.length;
              }
              expect(Math.abs(norm(gradient) - large.norm), name).toBeLessThanOrEqual(most);
              const places = [...(expected.sample_index[name] as number[]), large.max_abs[0]];
              const values = [...large.at_sample, large.max_abs[1]];
              const found = places.map((index) => gradient[index] as number);
              expect(difference(found, values).max, name).toBeLessThanOrEqual(most);
            }
            if (full) {
              const exact = full.get(name) as Float32Array;
              const error = difference(gradient, exact).norm;
              expect(error, name).toBeLessThanOrEqual(allowed(norm(exact)));
              fullSquares += error ** 2;
            }
          }
          const most = tolerance.all * golden.grad_global_norm;
          expect(Math.sqrt(estimatedSquares)).toBeLessThanOrEqual(most);
          expect(Math.sqrt(fullSquares)).toBeLessThanOrEqual(most);
          expect(Math.abs((await policy.gradientNorm()) - golden.grad_global_norm)).toBeLessThanOrEqual(most);
        },
      );
    }

    test(`${model}: log-probs of the teacher, which reads the critique`, async () => {
      using teacher = await Policy.load(sharedPath("golden", "models", model), { compute: "f32" });
      const { sequences } = readGolden("golden", "grads", model, "batch.json");
      // biome-ignore lint/suspicious/noExplicitAny: golden JSON
      const hinted = sequences.map((sequence: any) => sequence.teacher).filter(Boolean);
      expect(hinted.length).toBeGreaterThan(0);
      // biome-ignore lint/suspicious/noExplicitAny: golden JSON
      const scores = await teacher.score(hinted.map((each: any) => ({ tokens: each.token_ids })));
      for (const [index, { alignment_response, teacher_logp }] of hinted.entries()) {
        const logProbs = scores[index]?.logProbs as Float32Array;
        // The logits at a position belong to the token after it.
        const found = alignment_response.map(([, row]: [number, number]) => logProbs[row + 1]);
        expect(difference(found, arrays.get(teacher_logp)).max).toBeLessThanOrEqual(2e-4);
      }
    });
  }
});

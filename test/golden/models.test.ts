import { expect, test } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { bf16Allowance } from "../support/bf16-exceptions.js";
import { difference, GoldenArrays, goldenModels, readGolden } from "../support/golden.js";
import { describeShared, sharedPath } from "../support/shared.js";

interface Sequence {
  name: string;
  token_ids: number[];
  logits: string;
  logprobs: string;
  entropy: string;
  greedy_16: number[];
  greedy_gaps: number[];
  observed_error: Record<string, number>;
}

describeShared("golden models", () => {
  for (const model of goldenModels) {
    const sequences: Sequence[] = readGolden("golden", "models", model, "cases.json").sequences;
    const arrays = new GoldenArrays("golden", "models", model, "cases.json");
    const load = (compute: "f32" | "bf16") => Policy.load(sharedPath("golden", "models", model), { compute });

    for (const compute of ["f32", "bf16"] as const) {
      /** Largest error allowed, by shared/golden/README.md; in bf16 a multiple of what the peers show. */
      const tolerances = ({ name, observed_error: observed }: Sequence) => {
        if (compute === "f32") return { logits: 2e-4, logitsRms: 2e-4, logProbs: 2e-4, entropies: 2e-4 };
        const logProbs = 3 * (observed.peer_bf16_logprob_max_abs ?? Number.NaN);
        return {
          logits: 3 * (observed.peer_bf16_logits_max_abs ?? Number.NaN),
          logitsRms: 2 * (observed.peer_bf16_logits_rms ?? Number.NaN),
          logProbs: bf16Allowance(model, name, "log-probs", logProbs),
          entropies: bf16Allowance(model, name, "entropies", logProbs),
        };
      };

      test(`${model}, ${compute}: logits`, async () => {
        using policy = await load(compute);
        for (const sequence of sequences) {
          const { max, rms } = difference(
            await policy.logits(sequence.token_ids),
            arrays.get(sequence.logits),
          );
          expect(max, sequence.name).toBeLessThanOrEqual(tolerances(sequence).logits);
          expect(rms, sequence.name).toBeLessThanOrEqual(tolerances(sequence).logitsRms);
        }
      });

      test(`${model}, ${compute}: log-probs and entropies, all sequences in one batch`, async () => {
        using policy = await load(compute);
        // An entry belongs to the token that it stands at, so the entropy after the last token needs one more.
        const extended = sequences.map(({ token_ids }) => ({ tokens: [...token_ids, 0] }));
        const scores = await policy.score(extended, { entropy: true });
        for (const [index, sequence] of sequences.entries()) {
          const { logProbs, entropies } = scores[index] as (typeof scores)[0];
          const length = sequence.token_ids.length;
          const tolerance = tolerances(sequence);
          const logProbError = difference(logProbs.subarray(1, length), arrays.get(sequence.logprobs));
          const entropyError = difference(entropies.subarray(1), arrays.get(sequence.entropy));
          expect(logProbError.max, sequence.name).toBeLessThanOrEqual(tolerance.logProbs);
          expect(entropyError.max, sequence.name).toBeLessThanOrEqual(tolerance.entropies);
        }
      });

      test(`${model}, ${compute}: greedy tokens`, async () => {
        using policy = await load(compute);
        const prompts = sequences.map(({ token_ids }) => token_ids);
        const texts = await policy.generate(prompts, { temperature: 0, maxNewTokens: 16, endTokens: [] });
        for (const [
          index,
          { greedy_16: expected, greedy_gaps: gaps, observed_error },
        ] of sequences.entries()) {
          // In bf16 a token is the peers' only as long as the two best logits lie further apart than rounding.
          const error = compute === "f32" ? 0 : (observed_error.peer_bf16_logits_max_abs ?? 0);
          const close = gaps.findIndex((gap) => gap <= 2 * error);
          const comparable = close < 0 ? expected.length : close;
          const tokens = Array.from(texts[index]?.tokens ?? []);
          expect(tokens).toHaveLength(16);
          expect(tokens.slice(0, comparable)).toEqual(expected.slice(0, comparable));
        }
      });
    }
  }
});

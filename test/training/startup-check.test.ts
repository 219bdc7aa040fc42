import { expect, test } from "vitest";
import { checkTrainingSampling } from "../../lib/training/sampling-check.js";
import { checkLogProbs } from "../../lib/training/startup-check.js";
import { trajectoryOf } from "../support/trajectory.js";

/** A model whose log-probs are those of `trajectoryOf`, off by `off` at one token. */
function model(off = 0, at = 0) {
  return {
    score: async (sequences: readonly { tokens: ArrayLike<number>; first?: number }[]) =>
      sequences.map(({ tokens, first = 1 }) => ({
        logProbs: Float32Array.from({ length: tokens.length }, (_, i) =>
          i < first ? 0 : -(i - first + 1) / 8 + (i - first === at ? off : 0),
        ),
        entropies: new Float32Array(),
      })),
  };
}

const trajectories = [trajectoryOf(["think", "tag", "search", "observation", "tag"], { id: "0-1-2" })];

test("equal log-probs pass, and inserted tokens are not looked at", async () => {
  expect(await checkLogProbs(model(), trajectories, 0, { temperature: 1 })).toBe(0);
  expect(await checkLogProbs(model(5, 3), trajectories, 0, { temperature: 1 })).toBe(0);
  expect(await checkLogProbs(model(), [], 0, { temperature: 1 })).toBe(0);
});

test("a gap over the tolerance is an error that names trajectory and token", async () => {
  await expect(checkLogProbs(model(0.125, 2), trajectories, 0, { temperature: 1 })).rejects.toMatchObject({
    code: "LOG_PROB_MISMATCH",
    message: expect.stringMatching(/Token 2 \(id 102\) of trajectory 0-1-2 .*0.125 nats apart/),
  });
  expect(await checkLogProbs(model(0.125, 2), trajectories, 0.125, { temperature: 1 })).toBe(0.125);
});

test("NaN never passes", async () => {
  const check = checkLogProbs(model(Number.NaN, 4), trajectories, 1e9, { temperature: 1 });
  await expect(check).rejects.toMatchObject({ code: "LOG_PROB_MISMATCH" });
});

test("the default sampling is the full distribution at temperature 1", () => {
  expect(checkTrainingSampling()).toEqual({ temperature: 1, topK: 0, topP: 1, minP: 0 });
  expect(checkTrainingSampling({ temperature: 0.6 }).temperature).toBe(0.6);
  expect(() => checkTrainingSampling({ temperature: Number.NaN })).toThrow(/temperature NaN/);
});

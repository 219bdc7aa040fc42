import { expect, test } from "vitest";
import { batchTotals } from "../../lib/policy/batch.js";
import { partsOf, totalsOf, trainingBatch } from "../../lib/training/batch.js";
import { scoreGroups } from "../../lib/training/samples.js";
import { trajectoryOf } from "../support/trajectory.js";
import { sampleOf } from "./samples.js";

test("columns stand behind the prompt", () => {
  const sample = sampleOf();
  sample.referenceLogProbs = Float32Array.of(-1, -2, -3, -4, -5, 0, -7);
  sample.teacherLogProbs = Float32Array.of(0, 0, -0.25, -0.5, 0, 0, 0);
  const [sequence] = trainingBatch([sample], "search");
  expect(sequence).toEqual({
    tokens: Int32Array.of(1, 2, 3, 100, 101, 102, 103, 104, 105, 106),
    policyMask: Uint8Array.of(0, 0, 0, 1, 1, 1, 1, 1, 0, 1),
    oldLogProbs: Float32Array.of(0, 0, 0, -0.125, -0.25, -0.375, -0.5, -0.625, 0, -0.875),
    referenceLogProbs: Float32Array.of(0, 0, 0, -1, -2, -3, -4, -5, 0, -7),
    teacherLogProbs: Float32Array.of(0, 0, 0, 0, 0, -0.25, -0.5, 0, 0, 0),
    distillMask: Uint8Array.of(0, 0, 0, 0, 0, 1, 1, 0, 0, 0),
    advantages: -0.5,
  });
});

test("a sample without teacher log-probs has no distillation column", () => {
  const [sequence] = trainingBatch([sampleOf()], "search");
  expect(Object.keys(sequence ?? {}).sort()).toEqual(["advantages", "oldLogProbs", "policyMask", "tokens"]);
});

test("samples without reward and without tokens are left out", () => {
  const lost = sampleOf({ status: "search failed" }, { reward: null, advantage: null, failed: false });
  const empty = sampleOf({ status: "truncated" }, {}, []);
  expect(trainingBatch([lost, sampleOf(), empty], "search").length).toBe(1);
});

test("a column of another length is an error that names the trajectory", () => {
  const sample = sampleOf({ id: "3-1-4" });
  sample.teacherLogProbs = new Float32Array(6);
  expect(() => trainingBatch([sample], "search")).toThrow(/3-1-4 has 7 tokens.*6 entries/);
});

test("rewards, advantages and outcomes of groups; a failed search has no reward and is not scored", async () => {
  const make = (answer: string | null, status: "answered" | "search failed" = "answered") =>
    trajectoryOf(["think"], { answer, status });
  const asked: (string | null)[] = [];
  const samples = await scoreGroups(
    [
      [make("yes"), make("no"), make("yes", "search failed")],
      [make("no"), make("no")],
      [make("yes"), make("yes")],
      [make("yes", "search failed")],
    ],
    ({ answer }) => {
      asked.push(answer);
      return { reward: answer === "yes" ? 1 : 0, components: {} };
    },
    { successThreshold: 0.5, advantage: { normalize: false } },
  );
  expect(asked).toEqual(["yes", "no", "no", "no", "yes", "yes"]);
  expect(
    samples.map((group) => group.map(({ reward, advantage, failed }) => [reward, advantage, failed])),
  ).toEqual([
    [
      [1, 0.5, false],
      [0, -0.5, true],
      [null, null, false],
    ],
    [
      [0, 0, true],
      [0, 0, true],
    ],
    [
      [1, 0, false],
      [1, 0, false],
    ],
    [[null, null, false]],
  ]);
  expect(samples.map(([sample]) => sample?.group)).toEqual(["mixed", "all-fail", "all-pass", "unscored"]);
});

test("totals are those of the batch, and parts keep every sample in order", () => {
  const taught = sampleOf();
  taught.teacherLogProbs = new Float32Array(7);
  const lost = sampleOf({ status: "search failed" }, { reward: null, advantage: null, failed: false });
  const foreign = sampleOf({}, {}, ["observation"]);
  const samples = [sampleOf(), taught, lost, foreign, sampleOf({}, {}, ["think"])];
  expect(totalsOf(samples, "search")).toEqual(batchTotals(trainingBatch(samples, "search")));
  // Lengths with the prompt of three tokens: 10, 10, 10, 4, 4.
  const sizes = (tokens: number) => partsOf(samples, tokens).map((part) => part.length);
  expect([sizes(1), sizes(14), sizes(24), sizes(1000)]).toEqual([[1, 1, 1, 1, 1], [1, 1, 2, 1], [2, 3], [5]]);
  expect(partsOf(samples, 14).flat()).toEqual(samples);
});

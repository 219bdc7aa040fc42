import { expect, test } from "vitest";
import type { SequenceToScore } from "../../lib/policy/policy-options.js";
import type { TrainingSample } from "../../lib/training/samples.js";
import { scoreHinted, scorePlain } from "../../lib/training/teacher.js";

/** Question and text alone: a search of two tokens between others, the last of them an observation. */
function sample(question: string, length = 8): TrainingSample {
  const trajectory = {
    question: { question, goldAnswers: [] },
    promptTokens: Int32Array.of(1, 2, 3),
    tokens: Int32Array.from({ length }, (_, t) => 10 + t),
    spans: [
      { kind: "think", start: 0, end: 2 },
      { kind: "tag", start: 2, end: 3 },
      { kind: "search", start: 3, end: 5 },
      { kind: "tag", start: 5, end: 6 },
      { kind: "observation", start: 6, end: length },
    ],
    searches: [{ start: 3, end: 5 }],
  };
  return { trajectory } as unknown as TrainingSample;
}

/** Scores the token at position t with -t, and remembers what it was asked for. */
class Model {
  readonly asked: SequenceToScore[] = [];

  async score(sequences: readonly SequenceToScore[]) {
    this.asked.push(...sequences);
    return sequences.map(({ tokens, mask }) => ({
      logProbs: Float32Array.from(tokens, (_, t) => (mask?.[t] ? -t : 0)),
      entropies: new Float32Array(),
    }));
  }
}

test("the teacher scores the scope's tokens alone, counted from the end of the hinted prompt", async () => {
  const model = new Model();
  const one = sample("a?");
  const protocol = { promptTokens: () => Int32Array.of(1, 9, 9, 2, 3) };
  const options = { temperature: 1 };
  const { logProbs } = await scoreHinted(model, new Map([[one, "look"]]), protocol, 100, options);
  expect(Array.from(logProbs.get(one) ?? [], Math.abs)).toEqual([0, 0, 0, 8, 9, 0, 0, 0]);
  const wider = await scoreHinted(model, new Map([[one, "look"]]), protocol, 100, {
    ...options,
    scope: "all",
  });
  expect(Array.from(wider.logProbs.get(one) ?? [], Math.abs)).toEqual([5, 6, 7, 8, 9, 10, 0, 0]);
  expect(Array.from((await scorePlain(model, [one.trajectory], options))[0] ?? [], Math.abs)).toEqual([
    3, 4, 5, 6, 7, 8, 0, 0,
  ]);
});

test("a hinted prompt is encoded once for a question and a hint, over many parts", async () => {
  const model = new Model();
  const samples = Array.from({ length: 100 }, (_, i) => sample(`question ${i % 3}`));
  const hints = new Map(samples.map((each, i) => [each, i % 2 ? "hint" : "another"]));
  const encoded: string[] = [];
  const protocol = {
    promptTokens(question: string, hint?: string) {
      encoded.push(`${question} ${hint}`);
      return Int32Array.of(question.length, hint?.length ?? 0);
    },
  };
  const { logProbs, overBudget } = await scoreHinted(model, hints, protocol, 100, { temperature: 1 });
  expect([...logProbs.keys()]).toEqual(samples);
  expect(overBudget).toBe(0);
  expect(encoded.sort()).toEqual([...new Set(encoded)].sort());
  expect(encoded).toHaveLength(6);
});

test("equal contexts are scored once, and each has its own scores", async () => {
  const model = new Model();
  const different = sample("a?", 9);
  const samples = [sample("a?"), sample("a?"), different, sample("b?"), sample("a?")];
  const protocol = { promptTokens: (question: string) => Int32Array.of(question.charCodeAt(0)) };
  const { logProbs } = await scoreHinted(
    model,
    new Map(samples.map((each) => [each, "hint"])),
    protocol,
    100,
    {
      temperature: 1,
    },
  );
  expect(model.asked).toHaveLength(3);
  const scores = samples.map((each) => logProbs.get(each));
  expect(scores[1]).toEqual(scores[0]);
  expect(scores[1]).not.toBe(scores[0]);
  expect(scores[2]).toHaveLength(9);
});

test("contexts over the budget and those without a token of the scope are not run", async () => {
  const model = new Model();
  const short = sample("a?");
  const long = sample("b?", 40);
  const silent = {
    trajectory: { ...sample("c?").trajectory, spans: [], searches: [] },
  } as unknown as TrainingSample;
  const hints = new Map([short, long, silent].map((each) => [each, "hint"]));
  const protocol = { promptTokens: () => Int32Array.of(1) };
  const { logProbs, overBudget } = await scoreHinted(model, hints, protocol, 20, { temperature: 1 });
  expect([...logProbs.keys()]).toEqual([short, silent]);
  expect(overBudget).toBe(1);
  expect(model.asked).toHaveLength(1);
  expect(logProbs.get(silent)).toEqual(new Float32Array(8));
});

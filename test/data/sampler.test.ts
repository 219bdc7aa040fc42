import { describe, expect, test } from "vitest";
import type { Question } from "../../lib/data/question.js";
import { QuestionSampler, type SamplerCursor } from "../../lib/data/sampler.js";

const questions: Question[] = Array.from({ length: 10 }, (_, i) => ({
  id: String(i),
  question: `question ${i}`,
  goldAnswers: ["x"],
}));
const ids = (sampler: QuestionSampler, count: number) => sampler.next(count).map(({ id }) => id);

describe("QuestionSampler", () => {
  test("a pass holds every question once; the next pass has another order", () => {
    const sampler = new QuestionSampler(questions, { seed: 5 });
    const first = ids(sampler, 10);
    const second = ids(sampler, 10);
    for (const pass of [first, second]) expect([...pass].sort()).toEqual(questions.map(({ id }) => id));
    expect(first).not.toEqual(second);
    expect(first).not.toEqual(questions.map(({ id }) => id));
  });

  test("the order depends on the seed, not on the size of the requests", () => {
    const whole = ids(new QuestionSampler(questions, { seed: 5 }), 40);
    const parts = new QuestionSampler(questions, { seed: 5 });
    expect([3, 9, 1, 12, 15].flatMap((count) => ids(parts, count))).toEqual(whole);
    expect(ids(new QuestionSampler(questions, { seed: 6 }), 40)).not.toEqual(whole);
  });

  // Also pins the order: a change of it would silently change every recorded run.
  test("the order is part of the contract", () => {
    expect(ids(new QuestionSampler(questions, { seed: 0 }), 10).join(" ")).toMatchInlineSnapshot(
      `"9 2 5 0 3 1 7 8 4 6"`,
    );
  });

  test("resumes anywhere, in the middle of a later pass too", () => {
    for (let done = 0; done < 25; done++) {
      const sampler = new QuestionSampler(questions, { seed: 1 });
      if (done > 0) sampler.next(done);
      const cursor: SamplerCursor = JSON.parse(JSON.stringify(sampler.cursor));
      const resumed = new QuestionSampler(questions, { seed: 1 });
      resumed.restore(cursor);
      expect(ids(resumed, 30)).toEqual(ids(sampler, 30));
      expect(resumed.cursor).toEqual(sampler.cursor);
    }
  });

  test("equal questions are distinct items", () => {
    const twins = [questions[0], questions[0], questions[1]] as Question[];
    expect(ids(new QuestionSampler(twins), 3).sort()).toEqual(["0", "0", "1"]);
  });

  test("in order if asked", () => {
    expect(ids(new QuestionSampler(questions, { inOrder: true }), 12)).toEqual([..."0123456789", "0", "1"]);
  });

  test("a later change of the caller's list does not reach it", () => {
    const list = [...questions];
    const sampler = new QuestionSampler(list, { inOrder: true });
    list.length = 0;
    expect(ids(sampler, 10)).toHaveLength(10);
  });

  test("first places are spread evenly over seeds", () => {
    const counts = new Map<string, number>();
    for (let seed = 0; seed < 5000; seed++) {
      const [id] = ids(new QuestionSampler(questions, { seed }), 1) as [string];
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    expect(counts.size).toBe(10);
    for (const count of counts.values()) expect(Math.abs(count - 500)).toBeLessThan(110);
  });

  test.each<[string, () => unknown]>([
    ["no questions", () => new QuestionSampler([])],
    ["a fractional seed", () => new QuestionSampler(questions, { seed: 0.5 })],
    ["a fractional seed in order", () => new QuestionSampler(questions, { seed: 0.5, inOrder: true })],
    ["a count of zero", () => new QuestionSampler(questions).next(0)],
    ["a position beyond", () => new QuestionSampler(questions).restore({ epoch: 0, position: 10 })],
    ["a negative epoch", () => new QuestionSampler(questions).restore({ epoch: -1, position: 0 })],
  ])("%s is refused", (_name, act) => {
    expect(act).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});

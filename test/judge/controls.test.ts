import { describe, expect, test } from "vitest";
import { EmptyJudge, GenericJudge, shuffled, withoutGold } from "../../lib/judge/controls.js";
import type { Critique, Judge, JudgeInput } from "../../lib/judge/judge.js";

const input: JudgeInput = { question: "q", goldAnswers: ["secret"], steps: [], answer: null };
const ok = (text: string): Critique => ({ status: "ok", text });
const bad: Critique = { status: "failed", reason: "outage" };

test("withoutGold hides the gold answers and nothing else", async () => {
  const seen: unknown[] = [];
  const judge: Judge = {
    critique: async (given, options) => {
      seen.push(given, options);
      return ok("fine");
    },
  };
  const options = { signal: new AbortController().signal };
  expect(await withoutGold(judge).critique(input, options)).toEqual(ok("fine"));
  expect(seen).toEqual([{ ...input, goldAnswers: null }, options]);
  expect(input.goldAnswers).toEqual(["secret"]);
});

test("the generic and the empty judge say the same about everything, and can be aborted", async () => {
  expect(await new GenericJudge("Search better.").critique(input)).toEqual(ok("Search better."));
  expect(await new EmptyJudge().critique(input)).toEqual(ok(""));
  const signal = AbortSignal.abort();
  await expect(new EmptyJudge().critique(input, { signal })).rejects.toMatchObject({ code: "ABORTED" });
});

describe("shuffled", () => {
  test("moves on by half", () => {
    expect(shuffled(["a", "b", "c", "d"].map(ok))).toEqual(["c", "d", "a", "b"].map(ok));
    expect(shuffled(["a", "b", "c"].map(ok))).toEqual(["b", "c", "a"].map(ok));
  });

  test("leaves failures where they are and every text in use once", () => {
    expect(shuffled([ok("a"), bad, ok("b"), bad, ok("c"), ok("d")])).toEqual([
      ok("c"),
      bad,
      ok("d"),
      bad,
      ok("a"),
      ok("b"),
    ]);
  });

  test("gives nobody his own", () => {
    for (let count = 2; count < 20; count++) {
      const texts = Array.from({ length: count }, (_, i) => ok(`${i}`));
      const moved = shuffled(texts);
      expect(moved.filter((critique, i) => critique === texts[i])).toEqual([]);
      expect(new Set(moved).size).toBe(count);
    }
  });

  test("has nothing to exchange a single critique for", () => {
    expect(shuffled([bad, ok("a")])).toEqual([bad, { status: "failed", reason: expect.any(String) }]);
    expect(shuffled([])).toEqual([]);
  });
});

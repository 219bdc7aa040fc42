import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Critique, JudgeInput } from "../../lib/judge/judge.js";
import { LeakGuard, mentionsAnswer, redactAnswers } from "../../lib/judge/leak.js";
import { describeShared, sharedPath } from "../support/shared.js";

describe("found", () => {
  test.each([
    ["Search for Paris.", "Paris"],
    ["search for PARIS!", "paris"],
    ["Search “Paris”-related pages", "Paris"],
    ["Obama's birthplace", "Obama"],
    ["the Spider Man film", "Spider-Man"],
    ["the Spider-Man film", "Spider Man"],
    ["the spiderman film", "Spider-Man"],
    ["Search Beyonce songs", "Beyoncé"],
    ["born 12 March 1979", "1979"],
    ["about 12,500 people", "12500"],
    ["about 12,500 people", "12,500"],
    ["the Beatles", "The Beatles"],
    ["Beatles albums", "The Beatles"],
    ["U.S. politics", "U.S."],
    ["東京都の人口", "東京"],
    ["Сталкер, фильм", "сталкер"],
    ["new york city", "New York"],
  ])("%j states %j", (text, gold) => {
    expect(mentionsAnswer(text, ["something else", gold])).toBe(true);
  });
});

describe("not found", () => {
  test.each([
    ["Search the parish register.", "Paris"],
    ["Search New Jersey and York", "New York"],
    ["York New", "New York"],
    ["there is no reason, yes", "no"],
    ["Yes, search it", "Yes"],
    ["Search the film", "The"],
    ["Search the film", ""],
    ["", "Paris"],
    ["1975 and 19750", "9750"],
  ])("%j does not state %j", (text, gold) => {
    expect(mentionsAnswer(text, [gold])).toBe(false);
  });

  test("what the question itself says", () => {
    const question = "Which film is older, Jaws or Steven Spielberg's Duel?";
    expect(mentionsAnswer("Search Duel (film) first", ["Duel"], question)).toBe(false);
    expect(mentionsAnswer("Search Steven Spielberg", ["Steven Spielberg"], question)).toBe(false);
    expect(mentionsAnswer("Search Duel and 1971", ["1971", "Duel"], question)).toBe(true);
  });
});

describe("redacted", () => {
  test.each([
    ["Search Paris, then the mayor of Paris.", ["Paris"], "Search the answer, then the mayor of the answer."],
    ["Ask Obama's wife", ["Obama"], "Ask the answer's wife"],
    ["Search New York City maps", ["New York", "New York City"], "Search the answer maps"],
    ["Nothing here", ["Paris"], "Nothing here"],
    ["東京都の人口", ["東京"], "the answer都の人口"],
  ])("%j without %j", (text, golds, expected) => {
    const redacted = redactAnswers(text, golds);
    expect(redacted).toBe(expected);
    expect(mentionsAnswer(redacted, golds)).toBe(false);
  });
});

describe("LeakGuard", () => {
  const input: JudgeInput = { question: "Who?", goldAnswers: ["Ada Lovelace"], steps: [], answer: null };
  const leaking: Critique = { status: "ok", text: "Search for Ada Lovelace's mother.", raw: "r" };
  const clean: Critique = { status: "ok", text: "Search for the poet's daughter.", raw: "r" };
  const failed: Critique = { status: "unparsable", reason: "x" };

  test("off: passes and counts", () => {
    const guard = new LeakGuard("off");
    expect([leaking, clean, failed].map((critique) => guard.apply(critique, input))).toEqual([
      leaking,
      clean,
      failed,
    ]);
    expect(guard.stats()).toEqual({ checked: 2, leaked: 1, rate: 0.5 });
  });

  test("redact: replaces, keeps the reply", () => {
    const guard = new LeakGuard("redact");
    expect(guard.apply(leaking, input)).toEqual({
      status: "ok",
      text: "Search for the answer's mother.",
      raw: "r",
    });
    expect(guard.apply(clean, input)).toBe(clean);
  });

  test("redact: nothing useful left", () => {
    const guard = new LeakGuard("redact");
    expect(guard.apply({ status: "ok", text: "It is Ada Lovelace." }, input)).toEqual({
      status: "leaked",
      reason: expect.any(String),
    });
  });

  test("drop", () => {
    const guard = new LeakGuard("drop");
    expect(guard.apply(leaking, input)).toEqual({ status: "leaked", reason: expect.any(String), raw: "r" });
    expect(guard.stats().rate).toBe(1);
  });

  test("a judge without gold answers is not checked", () => {
    const guard = new LeakGuard("drop");
    expect(guard.apply(leaking, { ...input, goldAnswers: null })).toBe(leaking);
    expect(guard.stats()).toEqual({ checked: 0, leaked: 0, rate: 0 });
  });
});

describeShared("critiques that a language model wrote next to the gold answer", () => {
  interface Row {
    question: string;
    golden_answers: string[];
    reflection_after: string | null;
  }
  const rows = readFileSync(sharedPath("data", "golden", "trajectories", "reflexion_hotpotqa.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row)
    .filter((row) => row.reflection_after !== null);

  test("some state the answer, most do not, and none does once redacted", () => {
    let leaks = 0;
    for (const { question, golden_answers: golds, reflection_after: text } of rows as {
      reflection_after: string;
    }[] &
      Row[]) {
      if (!mentionsAnswer(text, golds, question)) continue;
      leaks++;
      expect(mentionsAnswer(redactAnswers(text, golds, question), golds, question)).toBe(false);
    }
    expect(rows.length).toBe(150);
    expect(leaks).toBeGreaterThan(5);
    expect(leaks).toBeLessThan(75);
  });
});

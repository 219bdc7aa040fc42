import { describe, expect, test } from "vitest";
import type { Critique } from "../../lib/judge/critique.js";
import type { JudgeInput } from "../../lib/judge/input.js";
import { LeakGuard } from "../../lib/judge/leak-guard.js";

describe("LeakGuard", () => {
  const input: JudgeInput = { question: "Who?", goldAnswers: ["Ada Lovelace"], steps: [], answer: null };
  const leaking: Critique = { status: "ok", text: "Search for Ada Lovelace's mother.", raw: "r" };
  const clean: Critique = { status: "ok", text: "Search for the poet's daughter.", raw: "r" };
  const failed: Critique = { status: "unparsable", reason: "x" };

  test("keep: passes and counts", async () => {
    const guard = new LeakGuard("keep");
    const applied = [leaking, clean, failed].map((critique) => guard.apply(critique, input));
    expect(await Promise.all(applied)).toEqual([leaking, clean, failed]);
    expect(guard.stats()).toEqual({ keep: { checked: 2, leaked: 1, rate: 0.5, leakedAgain: 0 } });
  });

  test("redact: replaces, keeps the reply", async () => {
    const guard = new LeakGuard("redact");
    expect(await guard.apply(leaking, input)).toEqual({
      status: "ok",
      text: "Search for the answer's mother.",
      raw: "r",
    });
    expect(await guard.apply(clean, input)).toBe(clean);
  });

  test("redact: nothing useful left", async () => {
    const guard = new LeakGuard("redact");
    expect(await guard.apply({ status: "ok", text: "It is Ada Lovelace." }, input)).toEqual({
      status: "leaked",
      reason: expect.any(String),
    });
  });

  test("drop", async () => {
    const guard = new LeakGuard("drop");
    expect(await guard.apply(leaking, input)).toEqual({
      status: "leaked",
      reason: expect.any(String),
      raw: "r",
    });
    expect(guard.stats().drop?.rate).toBe(1);
  });

  test("a judge without gold answers is not checked", async () => {
    const guard = new LeakGuard("drop");
    expect(await guard.apply(leaking, { ...input, goldAnswers: null })).toBe(leaking);
    expect(guard.stats()).toEqual({ drop: { checked: 0, leaked: 0, rate: 0, leakedAgain: 0 } });
  });

  test("ask again: the second critique counts, unless it states the answer too", async () => {
    const guard = new LeakGuard("ask-again");
    const seen: string[] = [];
    const answering = (critique: Critique) => async (first: { text: string }) => {
      seen.push(first.text);
      return critique;
    };
    expect(await guard.apply(leaking, input, answering(clean))).toBe(clean);
    expect(await guard.apply(leaking, input, answering(failed))).toBe(failed);
    expect(await guard.apply(leaking, input, answering(leaking))).toMatchObject({
      status: "leaked",
      raw: "r",
    });
    expect(await guard.apply(clean, input, answering(leaking))).toBe(clean);
    expect(await guard.apply(leaking, input)).toMatchObject({ status: "leaked" });
    expect(seen).toEqual(Array(3).fill("Search for Ada Lovelace's mother."));
    expect(guard.stats()).toEqual({ "ask-again": { checked: 5, leaked: 4, rate: 0.8, leakedAgain: 1 } });
  });
});

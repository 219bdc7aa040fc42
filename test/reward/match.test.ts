import { describe, expect, test } from "vitest";
import { extractAnswer } from "../../lib/reward/answer.js";
import { containsGold, exactMatch, f1Score } from "../../lib/reward/match.js";
import { normalizeAnswer } from "../../lib/reward/normalize.js";

// Expected values: Python 3.11 (str.lower, string.punctuation, re, str.split).
describe("normalizeAnswer", () => {
  test.each([
    ["The  Beatles", "beatles"],
    ["a-team", "ateam"],
    ["U. S. A.", "u s"],
    ["éa aé", "éa aé"],
    ["l’a", "l’"],
    ["a\u0301 the\u200ban", "\u0301 \u200b"],
    ["a² ½the ⅷan a٣", "a² ½the ⅷan a٣"],
    ["x\x1cy\x1dz\x85q\u2028r", "x y z q r"],
    ["x\u200by\ufeffz", "x\u200by\ufeffz"],
    ["ΑΣ ΑΣ.Α ΣΑ Σ", "ας ασα σα σ"],
    ["İI ẞ ǅ", "i̇i ß ǆ"],
    ["Theatre, the (Band) – “An” A", "theatre band – “ ”"],
    ["!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", ""],
    ["£1 €2 ¿3 ¡4", "£1 €2 ¿3 ¡4"],
  ])("%j", (text, expected) => {
    expect(normalizeAnswer(text)).toBe(expected);
  });

  test("a typographic apostrophe differs from a plain one, unless all punctuation goes", () => {
    expect(exactMatch("O’Brien", ["O'Brien"])).toBe(0);
    expect(exactMatch("O’Brien", ["O'Brien"], { punctuation: "unicode" })).toBe(1);
    expect(exactMatch("1990–95 $5", ["1990-95 5"], { punctuation: "unicode" })).toBe(1);
  });
});

describe("scores", () => {
  test("a sentence around the gold answer contains it and is no match", () => {
    const answer = "It was Barack Obama, I think";
    expect(exactMatch(answer, ["Barack Obama"])).toBe(0);
    expect(containsGold(answer, ["Barack Obama"])).toBe(1);
    expect(f1Score(answer, ["Barack Obama"])).toBeCloseTo(0.5, 12);
  });

  test("the best gold answer counts", () => {
    expect(exactMatch("Paris", ["London", "paris."])).toBe(1);
    expect(f1Score("Paris France", ["London", "Paris", "Paris, the capital of France"])).toBeCloseTo(
      2 / 3,
      12,
    );
  });

  test("words count as often as they are on both sides", () => {
    expect(f1Score("x x x", ["x x y"])).toBeCloseTo(2 / 3, 12);
    expect(f1Score("toString constructor", ["constructor"])).toBeCloseTo(2 / 3, 12);
  });

  test("yes, no and noanswer count as a whole", () => {
    expect(f1Score("no one", ["no"])).toBe(0);
    expect(f1Score("yes", ["yes sir"])).toBe(0);
    expect(f1Score("Yes.", ["yes"])).toBe(1);
    expect(f1Score("yes", ["no", "yes"])).toBe(1);
  });

  test("no answer scores nothing, an empty one what it normalises to", () => {
    for (const score of [exactMatch, containsGold, f1Score]) expect(score(null, ["the"])).toBe(0);
    expect(exactMatch("", ["the"])).toBe(1);
    expect(f1Score("", ["the"])).toBe(0);
  });

  test("a question without gold answers is an error, not a wrong answer", () => {
    for (const score of [exactMatch, containsGold, f1Score]) {
      expect(() => score("x", [])).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
      expect(() => score(null, [])).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
      expect(() => score("x", "x" as unknown as string[])).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});

describe("extractAnswer", () => {
  test.each<[string, string | null]>([
    ["<answer> A </answer>", "A"],
    ["<answer>A</answer> <answer>B</answer>", "B"],
    ["<answer>A</answer> <answer>B", "A"],
    ["<answer></answer>", ""],
    ["<answer><answer>A</answer></answer>", "<answer>A"],
    ["A</answer>", null],
    ["<Answer>A</Answer>", null],
    ["", null],
  ])("%j", (response, expected) => {
    expect(extractAnswer(response)).toBe(expected);
  });

  test("other tags and more pairs if asked for; an empty tag is refused", () => {
    expect(extractAnswer("[A[x]A]", { open: "[A[", close: "]A]" })).toBe("x");
    expect(extractAnswer("<answer>A</answer>", { minPairs: 2 })).toBeNull();
    expect(() => extractAnswer("x", { open: "" })).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });

  test("takes linear time on unclosed tags", () => {
    const started = performance.now();
    expect(extractAnswer("<answer>".repeat(200_000))).toBeNull();
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

import { expect, test } from "vitest";
import { plainAnalyzer } from "../../lib/retrieval/analyzer.js";

test.each([
  ["Who directed “Jaws” (1975)?", ["who", "directed", "jaws", "1975"]],
  ["Walker's well-known U.S. cars", ["walker", "s", "well", "known", "u", "s", "cars"]],
  ["", []],
  ["... !? \u0000 \n", []],
  ["🎬🍿👩‍👩‍👧", []],
  ["東京タワーは高い", ["東", "京", "タ", "ワ", "ー", "は", "高", "い"]],
  ["Tokyo東京Tower", ["tokyo", "東", "京", "tower"]],
  ["من هو المخرج؟", ["من", "هو", "المخرج"]],
  ["Кто снял «Сталкер»?", ["кто", "снял", "сталкер"]],
  ["ﬁlm １９７５ ℌ", ["film", "1975", "h"]],
  ["constructor __proto__", ["constructor", "proto"]],
])("%j", (text, terms) => {
  expect(plainAnalyzer(text)).toEqual(terms);
});

test("composed and decomposed letters are the same term", () => {
  expect(plainAnalyzer("Beyonce\u0301")).toEqual(plainAnalyzer("Beyonc\u00e9"));
});

test("a lone surrogate is no letter and no error", () => {
  expect(plainAnalyzer("a\ud800b")).toEqual(["a", "b"]);
});

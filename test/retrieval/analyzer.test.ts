import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { analyzePieces, plainAnalyzer } from "../../lib/retrieval/analyzer.js";

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

test("a long text has the same terms piece by piece", () => {
  const random = new Random(1);
  const words = [
    "Beyonce\u0301",
    "ﬁlm",
    "東京タワー",
    "المخرج",
    "\u00b4",
    "\u0301",
    "👩‍👩‍👧",
    "\ud800",
    "x".repeat(900),
    ".",
    "",
  ];
  const spaces = [" ", "\n", "\t ", "\r\n"];
  const pick = (from: string[]) => from[random.integer(from.length)] as string;
  const text = Array.from({ length: 8_000 }, () => pick(words) + pick(spaces)).join("");
  const lengths: number[] = [];
  const pieces = analyzePieces(text, (piece) => {
    lengths.push(piece.length);
    return plainAnalyzer(piece);
  });
  expect([...pieces].flat()).toEqual(plainAnalyzer(text));
  expect(lengths.length).toBeGreaterThan(40);
  expect(Math.max(...lengths)).toBeLessThanOrEqual(16_384);
});

test("a text without white space is cut between characters", () => {
  const text = "𝔘".repeat(20_000);
  const pieces: string[] = [];
  const analyzer = (piece: string) => [pieces[pieces.push(piece) - 1] as string];
  expect([...analyzePieces(`x${text}`, analyzer)].flat().join("")).toBe(`x${text}`);
  expect(pieces.every((piece) => Buffer.from(piece).toString() === piece)).toBe(true);
  expect(pieces.length).toBe(3);
});

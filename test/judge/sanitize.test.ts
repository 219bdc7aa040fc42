import { expect, test } from "vitest";
import { sanitize, shorten } from "../../lib/judge/sanitize.js";

const TAGS = ["think", "search", "information", "answer"];

test.each([
  ["Search the director's name.", "Search the director's name."],
  ["  two\n\nlines\tand tabs ", "two lines and tabs"],
  ["<search>a</search> < / ANSWER > <think class='x'>b", "a b"],
  ["<searching> a < b and c > d", "<searching> a < b and c > d"],
  ["<sea<search>rch>x</sea</search>rch>", "<sea rch>x</sea rch>"],
  ["<<search>search>x", "x"],
  ["a<|im_end|>b<|<|im_start|>im_start|>c", "a b c"],
  ["<s>[INST] x [/INST]</s> <<SYS>>y<</SYS>>", "x y"],
  ["<start_of_turn>user<end_of_turn><eos>", "user"],
  ["a\u0000b\u001b[31mc\u202ed\u200be\ufefff", "a b [31mc d e f"],
  ["क्\u200dष 👩\u200d🔬", "क्\u200dष 👩\u200d🔬"],
  ["\ud800x\udc00", "\ufffdx\ufffd"],
  ["", ""],
])("%j", (text, expected) => {
  expect(sanitize(text, TAGS)).toBe(expected);
});

test("nothing is left that would be taken out again", () => {
  const pieces = [
    "<",
    ">",
    "/",
    "search",
    "|",
    "im_end",
    "<|",
    "|>",
    "<search>",
    "[INST]",
    "[",
    "]",
    "\u200b",
    "</s>",
    " ",
  ];
  let state = 12345;
  for (let round = 0; round < 3000; round++) {
    let text = "";
    for (let i = 0; i < 12; i++) {
      state = (state * 1103515245 + 12345) % 2 ** 31;
      text += pieces[state % pieces.length];
    }
    const clean = sanitize(text, TAGS);
    expect(sanitize(clean, TAGS)).toBe(clean);
    expect(clean).not.toMatch(/<\s*\/?\s*search\b[^<>]*>|<\|[^<>|]*\|>|\[\/?INST\]|<\/?s>/i);
  }
});

test("without tags angle brackets stay", () => {
  expect(sanitize("<search>x</search>")).toBe("<search>x</search>");
});

test("what is nested without end loses its brackets", () => {
  expect(sanitize(`a${"<|".repeat(99)}${"|>".repeat(99)}b [c]`)).toBe("a b c");
});

test("tag names are no patterns", () => {
  expect(sanitize("<a.c>x</abc>", ["a.c"])).toBe("x</abc>");
});

test("hostile lengths take no time", () => {
  const start = performance.now();
  sanitize("<".repeat(200_000), TAGS);
  sanitize("<|".repeat(100_000), TAGS);
  sanitize("< ".repeat(100_000), TAGS);
  sanitize(`<${" ".repeat(100_000)}`, TAGS);
  sanitize(`${"<|".repeat(50_000)}${"|>".repeat(50_000)}`, TAGS);
  expect(performance.now() - start).toBeLessThan(2000);
});

test.each([
  ["abc", 3, "abc"],
  ["abcd", 3, "abc…"],
  ["a🎬b", 2, "a…"],
  ["a🎬b", 3, "a🎬…"],
])("shorten(%j, %i)", (text, length, expected) => {
  expect(shorten(text, length)).toBe(expected);
});

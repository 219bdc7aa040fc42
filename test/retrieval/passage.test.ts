import { expect, test } from "vitest";
import { formatContents, parseContents } from "../../lib/retrieval/passage.js";

test("reads Search-R1 contents", () => {
  expect(parseContents('"Evan Morris"\nEvan L. Morris was\na lobbyist.')).toEqual({
    title: "Evan Morris",
    text: "Evan L. Morris was\na lobbyist.",
  });
});

test.each([
  ["", "", ""],
  ["only text", "", "only text"],
  ['"Title alone"', "Title alone", ""],
  ["No quotes\ntext", "No quotes", "text"],
  ['"\ntext', '"', "text"],
  ['"A" and "B" \r\ntext', 'A" and "B', "text"],
  ['"He said ""no"""\ntext', 'He said ""no""', "text"],
])("reads %j", (contents, title, text) => {
  expect(parseContents(contents)).toEqual({ title, text });
});

test.each([
  ["", ""],
  ["", "text\nmore"],
  [' spaced "title" ', "\nstarts with a break"],
  ['"', '"quoted" text\r\n'],
  ["日本語", "テキスト"],
])("title %j and text %j survive writing and reading", (title, text) => {
  expect(parseContents(formatContents({ title, text }))).toEqual({ title, text });
});

test("a line break in a title cannot move words into the text", () => {
  expect(parseContents(formatContents({ title: "a\r\nb", text: "c" }))).toEqual({ title: "a b", text: "c" });
});

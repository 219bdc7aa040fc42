import { expect, test } from "vitest";
import { spelledNumber } from "../../lib/judge/number-words.js";

test.each([
  ["zero", "0", 1],
  ["seven", "7", 1],
  ["nineteen", "19", 1],
  ["twenty one", "21", 2],
  ["hundred", "100", 1],
  ["two hundred", "200", 2],
  ["two hundred and five", "205", 4],
  ["two hundred five thousand", "205000", 4],
  ["one million two hundred thousand and one", "1200001", 7],
  ["two thousand and five", "2005", 4],
  ["nineteen seventy five", "1975", 3],
  ["nineteen oh five", "1905", 3],
  ["twenty ten", "2010", 2],
  ["twenty twenty one", "2021", 3],
  ["twenty first", "21st", 2],
  ["eleventh", "11th", 1],
  ["hundredth", "100th", 1],
  ["twentieth century", "20th", 1],
  ["one hundred and second", "102nd", 4],
  ["five and six", "5", 1],
  ["hundred and x", "100", 1],
  ["two hundred and", "200", 2],
  ["five six", "5", 1],
  ["twenty zero", "20", 1],
])("%s", (text, digits, length) => {
  expect(spelledNumber(text.split(" "), 0)).toEqual({ digits, length });
});

test.each(["one", "first", "second", "search", "and five", ""])("%j begins no number", (text) => {
  expect(spelledNumber(text.split(" "), 0)).toBeUndefined();
});

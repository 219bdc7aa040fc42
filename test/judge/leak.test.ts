import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { keptWords } from "../../lib/judge/answer-words.js";
import { mentionsAnswer, redactAnswers } from "../../lib/judge/leak.js";
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
    ["films of nineteen seventy-five", "1975"],
    ["the year 1975", "nineteen seventy-five"],
    ["born in twenty oh four", "2004"],
    ["two thousand and five people", "2,005"],
    ["about twelve thousand five hundred people", "12,500"],
    ["seven films", "7"],
    ["7 films", "seven"],
    ["the twenty-first century", "21st"],
    ["a hundred and one dogs", "101"],
    ["the city of Lodz", "Łódź"],
    ["the city of Łódź", "Lodz"],
    ["Strasse, Soren, Aegir", "Straße"],
    ["Strasse, Soren, Aegir", "Søren"],
    ["Steven_Spielberg/films", "Steven Spielberg"],
    ["Steven... Spielberg", "Steven Spielberg"],
    ["the film Stalker", "Сталкер"],
    ["фильм Сталкер", "Stalker"],
    ["maps of Beijing", "北京"],
    ["北京の地図", "Beijing"],
    ["トヨタの車", "Toyota"],
    ["Athina airport", "Αθήνα"],
    ["P\u0430ris with a Cyrillic letter", "Paris"],
    ["Pa\u200dris with a joiner inside", "Paris"],
    ["Pa\u00adris with a soft hyphen", "Paris"],
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
    ["Search one of them", "1"],
    ["First search it, second search that", "1st"],
    ["five and six", "56"],
    ["twenty, thirty", "2"],
    ["動物園 in 東京", "東動"],
    // The same sounds, within a script and across.
    ["東京", "動京"],
    ["to be at a park", "та"],
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

test("the words of questions and answers are kept while they are in use, and no more than that", () => {
  const question = keptWords("Which city?");
  expect(keptWords("Which city?")).toBe(question);
  for (let i = 0; i < 20_000; i++) {
    keptWords(`another question, number ${i}`);
    if (i % 100 === 0) expect(keptWords("Which city?")).toBe(question);
  }
  for (let i = 0; i < 20_000; i++) keptWords(`yet another question, number ${i}`);
  expect(keptWords("Which city?")).not.toBe(question);
  const long = "word ".repeat(1000);
  expect(keptWords(long)).not.toBe(keptWords(long));
});

describe("redacted", () => {
  test.each([
    ["Search Paris, then the mayor of Paris.", ["Paris"], "Search the answer, then the mayor of the answer."],
    ["Ask Obama's wife", ["Obama"], "Ask the answer's wife"],
    ["Search New York City maps", ["New York", "New York City"], "Search the answer maps"],
    ["Nothing here", ["Paris"], "Nothing here"],
    ["東京都の人口", ["東京"], "the answer都の人口"],
    ["Films of nineteen seventy-five.", ["1975"], "Films of the answer."],
    ["Ask Pa\u200dris now", ["Paris"], "Ask the answer now"],
    ["Фильм Сталкер.", ["Stalker"], "Фильм the answer."],
  ])("%j without %j", (text, golds, expected) => {
    const redacted = redactAnswers(text, golds);
    expect(redacted).toBe(expected);
    expect(mentionsAnswer(redacted, golds)).toBe(false);
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

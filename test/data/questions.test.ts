import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadQuestions, parseQuestion } from "../../lib/data/questions.js";
import { describeShared, sharedPath } from "../support/shared.js";

const parse = (row: unknown) => parseQuestion(row, "here", "line 7");

describe("parseQuestion", () => {
  test("reads a FlashRAG row", () => {
    expect(
      parse({ id: "test_0", question: " who? ", golden_answers: ["A", "B"], metadata: { type: "bridge" } }),
    ).toEqual({ id: "test_0", question: "who?", goldAnswers: ["A", "B"], metadata: { type: "bridge" } });
  });

  test("reads a Search-R1 row", () => {
    const row = {
      id: 3,
      question: "who?",
      data_source: "nq",
      reward_model: { style: "rule", ground_truth: { target: ["A"] } },
    };
    expect(parse(row)).toEqual({ id: "3", question: "who?", goldAnswers: ["A"] });
  });

  test("the gold answer counts even when its alias list lacks it", () => {
    const row = { question: "where?", answer: "USA", answer_aliases: ["United States", "USA", "America"] };
    expect(parse(row)).toEqual({
      id: "line 7",
      question: "where?",
      goldAnswers: ["USA", "United States", "America"],
    });
  });

  test.each([
    ["no object", [], "JSON object"],
    ["no question", { golden_answers: ["A"] }, "`question`"],
    ["a blank question", { question: " ", golden_answers: ["A"] }, "`question`"],
    ["an endless question", { question: "q".repeat(65_537), golden_answers: ["A"] }, "65537 characters"],
    ["a question of another type", { question: 1, golden_answers: ["A"] }, "`question`"],
    ["no gold answer", { question: "q" }, "no gold answer"],
    ["an empty list", { question: "q", golden_answers: [] }, "no gold answer"],
    ["a blank gold answer", { question: "q", golden_answers: ["A", " "] }, "blank"],
    ["an endless gold answer", { question: "q", answer: "a".repeat(4_097) }, "4097 characters"],
    ["a gold answer of another type", { question: "q", golden_answers: ["A", 5] }, "`golden_answers`"],
    ["an id of another type", { id: {}, question: "q", answer: "A" }, "`id`"],
    ["metadata of another type", { question: "q", answer: "A", metadata: [1] }, "`metadata`"],
  ])("%s is refused, naming place and field", (_name, row, field) => {
    expect(() => parse(row)).toThrow(expect.objectContaining({ code: "INVALID_DATA" }));
    expect(() => parse(row)).toThrow(/^here: /);
    expect(() => parse(row)).toThrow(field);
  });
});

describe("loadQuestions", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "hindsearch-questions-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("keeps the order, equal questions and equal ids; stops at the limit", async () => {
    const row = JSON.stringify({ id: "x", question: "q", answer: "A" });
    const path = join(folder, "a.jsonl");
    await writeFile(path, `${row}\n\n${row}\n{"question":"r","answer":"B"}\nbroken`);
    const questions = await loadQuestions(path, { limit: 3 });
    expect(questions.map(({ id }) => id)).toEqual(["x", "x", "line 4"]);
    await expect(loadQuestions(path)).rejects.toMatchObject({ code: "INVALID_DATA" });
    await expect(loadQuestions(path, { limit: 0 })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("a file without rows is an error", async () => {
    const path = join(folder, "none.jsonl");
    await writeFile(path, "\n");
    await expect(loadQuestions(path)).rejects.toMatchObject({ code: "INVALID_DATA" });
  });
});

describeShared("loadQuestions on real sets", () => {
  test.each([
    ["nq/nq_open_dev", 2417],
    ["nq/test_1000", 695],
    ["triviaqa/test_1000", 681],
    ["popqa/test_1000", 668],
    ["popqa/with_passages_1000", 648],
    ["hotpotqa/dev_answers", 4981],
    ["hotpotqa/dev_with_passages", 275],
    ["hotpotqa/train_with_passages", 67],
    ["2wikimultihopqa/dev_1000", 649],
    ["2wikimultihopqa/dev_with_passages", 115],
    ["2wikimultihopqa/dev_answers_500", 337],
    ["musique/dev_with_passages", 134],
    ["musique/train_with_passages", 70],
    ["musique/dev_answers_1000", 672],
    ["musique/dev_answers_500", 326],
    ["bamboogle/test", 89],
  ])("%s", async (name, count) => {
    const questions = await loadQuestions(sharedPath("data", "qa", `${name}.jsonl`));
    expect(questions).toHaveLength(count);
    for (const { goldAnswers } of questions) expect(goldAnswers.length).toBeGreaterThan(0);
  });
});

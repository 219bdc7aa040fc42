import { describe, expect, test } from "vitest";
import type { Span, Trajectory } from "../../lib/agent/trajectory.js";
import { isWellFormed, type ResponsePiece } from "../../lib/reward/format.js";
import {
  exactMatchReward,
  f1Reward,
  formatReward,
  type RewardInput,
  rewardInput,
} from "../../lib/reward/reward.js";

const policy = (text: string): ResponsePiece => ({ text, source: "policy" });
const observation = (text = "\n\n<information>Doc 1 Paris</information>\n\n"): ResponsePiece => ({
  text,
  source: "observation",
});
const notice: ResponsePiece = { text: "\nThat was no valid action.\n", source: "notice" };
const input = (answer: string | null, pieces: ResponsePiece[]): RewardInput => ({
  answer,
  pieces: () => pieces,
});

const SEARCH = "<think>a</think>\n<search>q</search>";
const ANSWER = "<think>b</think> <answer>Paris</answer>";

describe("isWellFormed", () => {
  test.each<[string, ResponsePiece[]]>([
    ["an answer at once", [policy(ANSWER)]],
    ["a search before", [policy(SEARCH), observation(), policy(ANSWER)]],
    ["two searches", [policy(SEARCH), observation(), policy(` ${SEARCH}`), observation(), policy(ANSWER)]],
    ["empty tags", [policy("<think></think><answer></answer>")]],
    ["pieces cut inside a tag", [policy("<thi"), policy("nk>a</think><ans"), policy("wer>x</answer>\n")]],
    [
      "tags in a passage",
      [policy(SEARCH), observation("<answer>no</answer></think><search>"), policy(ANSWER)],
    ],
  ])("yes: %s", (_name, pieces) => {
    expect(isWellFormed(pieces)).toBe(true);
  });

  test.each<[string, ResponsePiece[]]>([
    ["nothing", []],
    ["no thought", [policy("<answer>x</answer>")]],
    ["a search without a thought", [policy("<search>q</search>"), observation(), policy(ANSWER)]],
    ["text between tags", [policy("<think>a</think> so <answer>x</answer>")]],
    ["text at the end", [policy(`${ANSWER} done`)]],
    ["an answer twice", [policy(`${ANSWER}<answer>y</answer>`)]],
    ["an unclosed thought", [policy("<think>a<answer>x</answer>")]],
    ["a tag inside a thought", [policy("<think>maybe <search> it</think><answer>x</answer>")]],
    ["no thought after an observation", [policy(SEARCH), observation(), policy("<answer>x</answer>")]],
    ["no answer", [policy(SEARCH), observation()]],
    ["an unclosed answer", [policy("<think>a</think><answer>x")]],
    ["an observation that nobody asked for", [policy("<think>a</think>"), observation(), policy(ANSWER)]],
    ["an observation of its own making", [policy(`${SEARCH}<information>Paris</information>${ANSWER}`)]],
    ["a notice", [policy("huh"), notice, policy(ANSWER)]],
    ["a notice after a search", [policy(SEARCH), notice, policy(ANSWER)]],
  ])("no: %s", (_name, pieces) => {
    expect(isWellFormed(pieces)).toBe(false);
  });

  test("with other tags", () => {
    const tags = { think: ["(", ")"], search: ["[", "]"], answer: ["{", "}"] } as const;
    expect(isWellFormed([policy("(a)[q]"), observation("x"), policy("(b){y}")], tags)).toBe(true);
    expect(isWellFormed([policy(ANSWER)], tags)).toBe(false);
  });
});

describe("rewards", () => {
  test("exact match and F1", () => {
    expect(exactMatchReward().score(input("the Paris", []), ["Paris"])).toEqual({
      reward: 1,
      components: { exactMatch: 1 },
    });
    expect(f1Reward().score(input("Paris France", []), ["Paris"])).toEqual({
      reward: expect.closeTo(2 / 3, 12),
      components: { f1: expect.closeTo(2 / 3, 12), exactMatch: 0 },
    });
    expect(exactMatchReward({ punctuation: "unicode" }).score(input("“Paris”", []), ["Paris"])).toMatchObject(
      {
        reward: 1,
      },
    );
  });

  test("exact match never decodes the response", () => {
    const blind: RewardInput = {
      answer: "x",
      pieces: () => {
        throw new Error("not needed");
      },
    };
    expect(exactMatchReward().score(blind, ["x"])).toMatchObject({ reward: 1 });
  });

  const kept = [policy(SEARCH), observation(), policy(ANSWER)];
  const broken = [policy("<answer>x</answer>")];
  test.each<[string, string | null, ResponsePiece[], number, number]>([
    ["right, kept", "Paris", kept, 1, 1],
    ["right, broken", "Paris", broken, 0.8, 0.8],
    ["wrong, kept, retrieved", "Rome", kept, 0.2, 0.2 + 0.1],
    ["wrong, kept", "Rome", [policy(ANSWER)], 0.2, 0.2],
    ["wrong, broken", "Rome", broken, 0.1, 0.1],
    ["none, broken", null, [policy("no tags")], 0, 0],
  ])("format: %s", (_name, answer, pieces, reward, withRetrieval) => {
    expect(formatReward().score(input(answer, pieces), ["Paris"])).toMatchObject({ reward });
    expect(formatReward({ retrieval: 0.1 }).score(input(answer, pieces), ["Paris"])).toMatchObject({
      reward: withRetrieval,
    });
  });

  test("only an observation counts as retrieved", () => {
    const guess = [policy("<think>Paris?</think><answer>Rome</answer>")];
    expect(formatReward({ retrieval: 0.1 }).score(input("Rome", guess), ["Paris"])).toMatchObject({
      reward: 0.2,
      components: { retrieved: 0 },
    });
  });

  test("parts out of range and missing gold answers are refused", () => {
    for (const options of [{ structure: 1.5 }, { finalFormat: -1 }, { retrieval: Number.NaN }]) {
      expect(() => formatReward(options)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    }
    for (const reward of [exactMatchReward(), f1Reward(), formatReward()]) {
      expect(() => reward.score(input("x", []), [])).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});

test("rewardInput gives the response by source, characters cut by a span border whole", () => {
  const bytes = Buffer.from("<a>é|obs|b");
  const spans: Span[] = [
    { start: 0, end: 4, kind: "tag" },
    { start: 4, end: 5, kind: "think" },
    { start: 5, end: 10, kind: "observation" },
    { start: 10, end: 11, kind: "answer" },
  ];
  const trajectory = { answer: "b", spans, tokens: Int32Array.from(bytes) } as unknown as Trajectory;
  const decode = (ids: ArrayLike<number>) => Buffer.from(Array.from(ids)).toString("utf8");
  const { answer, pieces } = rewardInput(trajectory, { decode });
  expect(answer).toBe("b");
  expect(pieces()).toEqual([
    { source: "policy", text: "<a>é" },
    { source: "observation", text: "|obs|" },
    { source: "policy", text: "b" },
  ]);
});

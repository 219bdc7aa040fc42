import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { extractAnswer } from "../../lib/reward/answer.js";
import { isWellFormed, type ResponsePiece } from "../../lib/reward/format.js";
import { containsGold, exactMatch, f1Score } from "../../lib/reward/match.js";
import { normalizeAnswer } from "../../lib/reward/normalize.js";
import { formatReward } from "../../lib/reward/reward.js";
import { describeShared, sharedPath } from "../support/shared.js";

const read = (...parts: string[]) => readFileSync(sharedPath(...parts), "utf8");

/** A response as text, cut where a search result was inserted; that is how a rollout records it in the first place. */
function pieces(response: string): ResponsePiece[] {
  return response
    .split(/(<information>.*?<\/information>)/s)
    .filter((text) => text !== "")
    .map((text) => ({ text, source: text.startsWith("<information>") ? "observation" : "policy" }));
}

interface Verdict {
  extract: string | null;
  normalized: string | null;
  em: number;
  subem: number;
}

interface Case {
  solution: string;
  golds: string[] | string;
  kind: "full" | "raw" | "format";
  note: string;
  search_r1: Verdict;
  verl: Verdict;
  search_r1_format?: { valid: boolean; score: number };
  golds_normalized: string[];
}

describeShared("golden/scalars/exact_match.json", () => {
  const file: { cases: Case[]; format_scores: Record<string, number> } = JSON.parse(
    read("golden", "scalars", "exact_match.json"),
  );
  const cases = file.cases.map((one) => ({ ...one, golds: [one.golds].flat() }));

  /** Rules of the peers that are not ours. */
  const other = {
    "no gold": "a question without gold answers is an error here, not a wrong answer",
    "12 tags: verl's copy divides the score by 4":
      "many tags are a matter of the format reward, not of exact match",
    "many closing tags: verl's copy divides by 4": "the same",
  };

  test("has the cases we know", () => {
    expect(cases).toHaveLength(119);
    for (const note of Object.keys(other)) expect(cases.map((one) => one.note)).toContain(note);
  });

  test("normalisation of every answer and gold answer", () => {
    for (const { golds, golds_normalized: normalized, verl, search_r1: searchR1 } of cases) {
      expect(golds.map((gold) => normalizeAnswer(gold))).toEqual(normalized);
      for (const verdict of [verl, searchR1]) {
        if (verdict.extract !== null) expect(normalizeAnswer(verdict.extract)).toBe(verdict.normalized);
      }
    }
  });

  test("extraction: ours is the one-pair rule, Search-R1's an option", () => {
    for (const { solution, verl, search_r1: searchR1 } of cases) {
      expect(extractAnswer(solution)).toBe(verl.extract);
      expect(extractAnswer(solution, { minPairs: 2 })).toBe(searchR1.extract);
    }
  });

  test.each(
    cases.filter(({ note }) => !(note in other)).map((one) => [one.note || one.golds.join(), one] as const),
  )("scores: %s", (_note, { solution, golds, verl, search_r1: searchR1 }) => {
    for (const [verdict, minPairs] of [[verl, 1] as const, [searchR1, 2] as const]) {
      const answer = extractAnswer(solution, { minPairs });
      expect(exactMatch(answer, golds)).toBe(verdict.em);
      expect(containsGold(answer, golds)).toBe(verdict.subem);
    }
  });

  describe("format", () => {
    const marker = "<|im_start|>assistant\n";
    const formatCases = cases.filter(({ kind }) => kind === "format");
    const { structure_format_score: structure, final_format_score: finalFormat } = file.format_scores;
    const reward = formatReward({
      structure: structure as number,
      finalFormat: finalFormat as number,
      retrieval: file.format_scores.retrieval_score as number,
    });

    test("has the cases we know", () => {
      expect(formatCases).toHaveLength(12);
    });

    // "assistant marker missing" is about finding the response in a text; here a response is known from the start.
    test.each(
      formatCases.filter(({ solution }) => solution.includes(marker)).map((one) => [one.note, one] as const),
    )("%s", (note, { solution, golds, search_r1_format: format }) => {
      const response = pieces(solution.slice(solution.indexOf(marker) + marker.length));
      const text = response.map((piece) => piece.text).join("");
      expect(isWellFormed(response)).toBe(format?.valid);
      const { reward: score } = reward.score(
        { answer: extractAnswer(text), pieces: () => response },
        golds,
      ) as {
        reward: number;
      };
      // There the two-pair rule finds no answer; by ours there is one, and it is right.
      const expected = note.startsWith("only one answer tag") ? 1 : format?.score;
      expect(score).toBeCloseTo(expected as number, 12);
    });
  });
});

describeShared("data/golden/em_behaviour.json", () => {
  const file: {
    normalise: [string, string][];
    em_check: { prediction: string; golden: string[]; em: number; sub_em: number }[];
    responses: {
      response: string;
      target: string[];
      search_r1_extract_with_prompt: string | null;
      search_r1_extract_response_only: string | null;
      search_r1_qa_em: number;
      search_r1_qa_subem: number;
      verl_extract_response_only: string | null;
      verl_search_r1_like_score_response_only: number;
      search_r1_format_valid: [boolean, string];
      search_r1_em_format: number;
    }[];
    prompt_prefix: string;
  } = JSON.parse(read("data", "golden", "em_behaviour.json"));

  test("normalisation", () => {
    expect(file.normalise).toHaveLength(30);
    for (const [text, expected] of file.normalise) expect(normalizeAnswer(text)).toBe(expected);
  });

  test("exact match and containment", () => {
    expect(file.em_check).toHaveLength(10);
    for (const { prediction, golden, em, sub_em } of file.em_check) {
      expect(exactMatch(prediction, golden)).toBe(em);
      expect(containsGold(prediction, golden)).toBe(sub_em);
    }
  });

  test.each(file.responses.map((one) => [one.response, one] as const))("response %j", (response, one) => {
    const answer = extractAnswer(response);
    expect(answer).toBe(one.verl_extract_response_only);
    expect(exactMatch(answer, one.target)).toBe(one.verl_search_r1_like_score_response_only);
    expect(extractAnswer(response, { minPairs: 2 })).toBe(one.search_r1_extract_response_only);
    const withPrompt = extractAnswer(file.prompt_prefix + response, { minPairs: 2 });
    expect(withPrompt).toBe(one.search_r1_extract_with_prompt);
    expect(exactMatch(withPrompt, one.target)).toBe(one.search_r1_qa_em);
    expect(containsGold(withPrompt, one.target)).toBe(one.search_r1_qa_subem);
    expect(isWellFormed(pieces(response))).toBe(one.search_r1_format_valid[0]);
    const scored = formatReward().score({ answer, pieces: () => pieces(response) }, one.target);
    expect(scored).toMatchObject({ reward: one.search_r1_em_format });
  });
});

describeShared("data/golden/em_real.jsonl", () => {
  const rows: { prediction: string; golden_answers: string[]; em: number; acc: number; f1: number }[] = read(
    "data",
    "golden",
    "em_real.jsonl",
  )
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

  test("em, acc and f1 of all recorded answers", () => {
    expect(rows).toHaveLength(771);
    for (const { prediction, golden_answers: golds, em, acc, f1 } of rows) {
      expect(exactMatch(prediction, golds)).toBe(em);
      expect(containsGold(prediction, golds)).toBe(acc);
      // Recorded with six digits.
      expect(Math.abs(f1Score(prediction, golds) - f1)).toBeLessThan(5.1e-7);
    }
  });
});

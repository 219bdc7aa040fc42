import type { Trajectory } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import { type FormatTags, isWellFormed, type ResponsePiece } from "./format.js";
import { containsGold, exactMatch, f1Score } from "./match.js";
import type { NormalizeOptions } from "./normalize.js";

/** What a reward sees of a response: nothing that stood in the prompt. */
export interface RewardInput {
  /** The text that the policy put into its last closed answer tags; `null` if there is none. */
  answer: string | null;
  /** The whole response, by source; decoded when asked for. */
  pieces(): readonly ResponsePiece[];
}

/** A score and what it is made of. */
export interface RewardResult {
  /** What the policy is trained with; finite. */
  reward: number;
  /** Named parts for the record, e.g. `exactMatch`. */
  components: Readonly<Record<string, number>>;
}

/** Scores a response. */
export interface Reward {
  /** For reports and plots. */
  readonly name: string;
  /**
   * Called when a trajectory ends, while others are still being decoded: many calls may be open, and their order is no fixed
   * one.
   *
   * @param input - The response.
   * @param goldAnswers - At least one.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` without gold answers.
   */
  score(input: RewardInput, goldAnswers: readonly string[]): RewardResult | Promise<RewardResult>;
}

/**
 * What a reward sees of a trajectory.
 *
 * @param trajectory - Any status but `search failed`, which has no reward.
 * @param tokenizer - The one that it was sampled with.
 */
export function rewardInput(trajectory: Trajectory, tokenizer: Pick<Tokenizer, "decode">): RewardInput {
  const { answer, spans, tokens } = trajectory;
  const pieces = () => {
    // Spans of the policy are decoded together: a character may be cut by a border between two of them.
    const ranges: { source: ResponsePiece["source"]; start: number; end: number }[] = [];
    for (const { start, end, kind } of spans) {
      const source = kind === "observation" || kind === "notice" ? kind : "policy";
      const last = ranges.at(-1);
      if (last?.source === source) last.end = end;
      else ranges.push({ source, start, end });
    }
    return ranges.map(({ source, start, end }) => ({
      source,
      text: tokenizer.decode(tokens.subarray(start, end)),
    }));
  };
  return { answer, pieces };
}

/** 1 if the answer equals a gold answer once both are normalised, else 0; see {@link exactMatch}. */
export function exactMatchReward(options?: NormalizeOptions): Reward {
  return {
    name: "exact match",
    score({ answer }, goldAnswers) {
      const reward = exactMatch(answer, goldAnswers, options);
      return { reward, components: { exactMatch: reward } };
    },
  };
}

/** Share of words that answer and gold answer have in common, 0 to 1; see {@link f1Score}. */
export function f1Reward(options?: NormalizeOptions): Reward {
  return {
    name: "F1",
    score({ answer }, goldAnswers) {
      const reward = f1Score(answer, goldAnswers, options);
      return { reward, components: { f1: reward, exactMatch: exactMatch(answer, goldAnswers, options) } };
    },
  };
}

/** Options of {@link formatReward}. */
export interface FormatRewardOptions extends NormalizeOptions {
  /** What a breach of the format costs a right answer, and what keeping it earns without one. Default 0.2. */
  structure?: number;
  /** For a wrong answer in a response that breaks the format. Default 0.1. */
  finalFormat?: number;
  /** On top of `structure`, if an observation holds a gold answer. Default 0. */
  retrieval?: number;
  /** Default: Search-R1's tags. */
  tags?: FormatTags;
}

/**
 * Exact match with credit for the format, as in Search-R1's version 0.3:
 *
 * | | format kept | format broken |
 * |---|---|---|
 * | right answer | 1 | 1 - structure |
 * | wrong answer | structure (+ retrieval) | finalFormat |
 * | no answer | structure (+ retrieval) | 0 |
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a part that is not between 0 and 1.
 */
export function formatReward(options: FormatRewardOptions = {}): Reward {
  const { structure = 0.2, finalFormat = 0.1, retrieval = 0, tags, ...normalize } = options;
  for (const [name, value] of Object.entries({ structure, finalFormat, retrieval })) {
    if (value >= 0 && value <= 1) continue;
    throw new HindsearchError("INVALID_ARGUMENT", `${name} must be from 0 to 1, got ${value}.`);
  }
  return {
    name: "exact match and format",
    score(input, goldAnswers) {
      const pieces = input.pieces();
      const right = exactMatch(input.answer, goldAnswers, normalize) === 1;
      const wellFormed = isWellFormed(pieces, tags);
      const retrieved = pieces.some(
        ({ text, source }) => source === "observation" && containsGold(text, goldAnswers, normalize) === 1,
      );
      const unanswered = wellFormed
        ? structure + (retrieved ? retrieval : 0)
        : input.answer === null
          ? 0
          : finalFormat;
      const answered = wellFormed ? 1 : 1 - structure;
      return {
        reward: right ? answered : unanswered,
        components: {
          exactMatch: Number(right),
          wellFormed: Number(wellFormed),
          retrieved: Number(retrieved),
        },
      };
    },
  };
}

import { f1Score } from "../reward/match.js";

/**
 * Which of several critiques of one trajectory is taken; of equally good ones the first.
 *
 * - `consensus`: the one that has most in common with the others, by mean token F1.
 * - `longest`: the one with the most characters, as in OpenClaw-RL (arXiv:2603.10165).
 */
export type VoteSelection = "consensus" | "longest";

/** All of them. @internal */
export const VOTE_SELECTIONS = ["consensus", "longest"] as const satisfies readonly VoteSelection[];

/** The index of the critique that is taken. */
export function selectVote(critiques: readonly string[], rule: VoteSelection): number {
  const scores = critiques.map((critique, i) =>
    rule === "longest"
      ? critique.length
      : critiques.reduce((sum, other, k) => (k === i ? sum : sum + f1Score(critique, [other])), 0),
  );
  return scores.indexOf(Math.max(...scores));
}

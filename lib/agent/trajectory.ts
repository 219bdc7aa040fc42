import type { Question } from "../data/question.js";
import { HindsearchError } from "../errors.js";
import type { RandomKey, Sampling } from "../policy/decoder.js";
import type { Passage } from "../retrieval/passage.js";

export type { Sampling } from "../policy/decoder.js";

/**
 * What a run of tokens is. `think`, `search`, `answer` and `tag` were written by the policy; `observation` and
 * `notice` were inserted.
 *
 * - `think`: text outside an executed action, the tags of reasoning and the end token included.
 * - `search`: strictly between the tags of a search that was executed.
 * - `answer`: strictly between the tags of the answer that ended the trajectory.
 * - `tag`: the tags of those actions, and any token that straddles a tag and its neighbour.
 * - `observation`: what a search returned, with its tags.
 * - `notice`: the text that follows an invalid action.
 */
export type SpanKind = "think" | "search" | "answer" | "tag" | "observation" | "notice";

/** Tokens `[start, end)` of {@link Trajectory.tokens}. */
export interface Span {
  /** First token. */
  start: number;
  /** One past the last token, greater than `start`. */
  end: number;
  /** What the tokens are. */
  kind: SpanKind;
}

/**
 * How a trajectory ended. A status is a fact about the rollout, not a score:
 *
 * | status | rule | reward | advantage | distillation |
 * |---|---|---|---|---|
 * | `answered` | the policy closed an answer tag pair | of the answer | in its group | if it failed |
 * | `no answer` | it wrote an end token, or its turns were used up | of no answer | in its group | if it failed |
 * | `truncated` | the length limit of a turn or of the context was reached | of no answer | in its group | if it failed
 * |
 * | `search failed` | the retriever failed, after its retries | none | none: it is no member of its group | never |
 */
export type TrajectoryStatus = "answered" | "no answer" | "truncated" | "search failed";

/** One search of a trajectory, in the order in which they were made. */
export interface SearchRecord {
  /** What was searched for: the text between the tags, trimmed. */
  query: string;
  /**
   * What was shown, best first, without what the limit cut off as a whole; empty if nothing was found, or nothing new
   * where repetitions are skipped, or the search failed. Of a trajectory whose context was full: what there was no room for.
   */
  passages: Passage[];
  /** The tokens of the query, a span of kind `search`; of length 0 if one token holds tag and query. */
  start: number;
  /** One past the query's last token. */
  end: number;
}

/** The full softmax at temperature 1: what a policy is trained with. */
export const FULL_SAMPLING: Readonly<Sampling> = { temperature: 1, topK: 0, topP: 1, minP: 0 };

/**
 * One rollout, written once while it is sampled and never derived again: the sampled ids are the truth, nothing is
 * decoded and encoded again, and every mask is a function of the spans (`masks.ts`).
 *
 * Invariants, checked when it is made or read: `logProbs` is as long as `tokens`; the spans are in order, touch
 * and cover all tokens; inserted tokens have log-prob 0.
 */
export interface Trajectory {
  /** `step-group-sample`, unique in a run. */
  id: string;
  /** Training step, or 0 outside of training. */
  step: number;
  /** Index of the question within its step: trajectories of one group answer one request for rollouts. */
  group: number;
  /** Index within the group, 0 to G - 1. */
  sample: number;
  /** The question with its gold answers. */
  question: Question;
  /** The prompt, chat template included. */
  promptTokens: Int32Array;
  /** Everything after the prompt in order: policy text, observations, notices. */
  tokens: Int32Array;
  /** Log-prob of every sampled token under `sampling`, in nats; 0 for inserted tokens. */
  logProbs: Float32Array;
  /** What every token is. */
  spans: Span[];
  /** The executed searches. */
  searches: SearchRecord[];
  /** Text of the last closed answer tag pair that the policy wrote, trimmed; `null` if there is none. */
  answer: string | null;
  /** How it ended. */
  status: TrajectoryStatus;
  /** Why, in words, where the status alone does not say it. */
  reason?: string;
  /** Turns of the policy, invalid ones included. */
  turns: number;
  /**
   * Versions of the weights that wrote the first and the last token, as `Policy.version` counts them. They order the
   * weights of one process and start anew in the next.
   */
  weightsVersion: [first: number, last: number];
  /** What the log-probs are of. */
  sampling: Sampling;
  /**
   * Key of the counter-based generator: the seed is that of the run, the stream a hash of step, question and sample.
   * The token at position p is a function of (seed, stream, p).
   */
  key: RandomKey;
}

/** Length of prompt and trajectory together, in tokens. */
export function trajectoryLength(trajectory: Trajectory): number {
  return trajectory.promptTokens.length + trajectory.tokens.length;
}

/**
 * Throws if a trajectory contradicts itself.
 *
 * @throws {@link HindsearchError} `INTERNAL`, or `INVALID_ARGUMENT` when it was read from outside.
 * @internal
 */
export function checkTrajectory(trajectory: Trajectory, code: "INTERNAL" | "INVALID_ARGUMENT"): void {
  const { id, tokens, logProbs, spans, searches } = trajectory;
  const fail = (what: string) => new HindsearchError(code, `Trajectory ${id}: ${what}.`);
  if (logProbs.length !== tokens.length) {
    throw fail(`${tokens.length} tokens but ${logProbs.length} log-probs; they must be as many`);
  }
  let at = 0;
  for (const { start, end, kind } of spans) {
    if (start !== at || end <= start)
      throw fail(`span ${kind} [${start}, ${end}) does not continue at ${at}`);
    at = end;
    if (kind !== "observation" && kind !== "notice") continue;
    for (let t = start; t < end; t++) {
      if (logProbs[t] !== 0) throw fail(`inserted token ${t} (${kind}) has a log-prob; it must be 0`);
    }
  }
  if (at !== tokens.length) throw fail(`the spans end at ${at}, the tokens at ${tokens.length}`);
  for (const [index, { start, end }] of searches.entries()) {
    if (start <= end && end <= tokens.length) continue;
    throw fail(`search ${index} at [${start}, ${end}) does not lie in its ${tokens.length} tokens`);
  }
}

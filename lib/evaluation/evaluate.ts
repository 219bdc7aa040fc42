import { createHash } from "node:crypto";
import type { AbortOptions } from "../abort.js";
import type { BoundProtocol } from "../agent/bound-protocol.js";
import type { SearchProtocol } from "../agent/protocol.js";
import { type RolloutProgress, rollout } from "../agent/rollout.js";
import type { SearchFailureOptions } from "../agent/search-options.js";
import type { SequenceDecoder } from "../agent/segments.js";
import { FULL_SAMPLING, type Sampling, type Trajectory, type TrajectoryStatus } from "../agent/trajectory.js";
import type { Question } from "../data/question.js";
import { HindsearchError } from "../errors.js";
import type { Retriever } from "../retrieval/retriever.js";
import { containsGold, exactMatch, f1Score } from "../reward/match.js";
import { type PairedDifference, pairedDifference } from "./paired.js";

/** What a score depends on beside the policy. Two reports are only comparable if all of it is equal. */
export interface EvaluationSettings {
  /** Name of the protocol. */
  protocol: string;
  /** Of prompt, tags, notice and passage format. */
  promptHash: string;
  /** Of the questions and their gold answers, in order. */
  questionsHash: string;
  /** Questions. */
  questions: number;
  /** Searches per question at most. */
  maxSearches: number;
  /** Passages per search. */
  passagesPerSearch: number;
  /** Tokens of a turn. */
  maxTurnTokens: number;
  /** Tokens of an observation. */
  maxObservationTokens: number;
  /** Tokens of the context. */
  maxTokens: number;
  /** The corpus and engine, as the caller names them. */
  corpus: string;
  /** The distribution answers were drawn from. */
  sampling: Sampling;
  /** Of the random numbers. */
  seed: string;
  /** Version of the scorer. */
  scorer: string;
}

/** Result of one question. */
export interface QuestionResult {
  /** Of the question. */
  id: string;
  /** What was answered. */
  answer: string | null;
  /** How the trajectory ended. */
  status: TrajectoryStatus;
  /** 1 or 0; `null` if the search failed. */
  exactMatch: number | null;
  /** 0 to 1; `null` if the search failed. */
  f1: number | null;
  /** Whether the answer contains a gold answer, 1 or 0; `null` if the search failed. */
  containment: number | null;
  /** Searches made. */
  searches: number;
}

/** Scores of a policy on a set of questions. */
export interface EvaluationReport {
  /** Mean exact match over the questions whose searches did not fail. */
  exactMatch: number;
  /** Mean F1. */
  f1: number;
  /** Mean containment: not exact match, and always at least as high. */
  containment: number;
  /** Questions by status. */
  statuses: Record<TrajectoryStatus, number>;
  /** Searches per question. */
  searches: number;
  /** Searches that failed in the end. */
  searchFailures: number;
  /** Outages of the search service that were waited for. */
  searchOutages: number;
  /** Milliseconds that these lasted. */
  searchPausedMilliseconds: number;
  /** Per question, in order. */
  results: QuestionResult[];
  /** What the scores depend on. */
  settings: EvaluationSettings;
  /** Wall-clock time. */
  milliseconds: number;
}

/** Options of {@link evaluate}. */
export interface EvaluationRunOptions extends AbortOptions, SearchFailureOptions {
  /** Decodes for the policy that is evaluated. */
  decoder: SequenceDecoder;
  /** Searches. */
  retriever: Retriever;
  /** How they talk. */
  protocol: BoundProtocol;
  /** With gold answers, which only the scorer sees. */
  questions: readonly Question[];
  /** Default: greedy. Any distribution is allowed here. */
  sampling?: Partial<Sampling>;
  /** Of the random numbers; the same seed draws alike in every evaluation. Default 0. */
  seed?: number | bigint;
  /** Names corpus and engine in the report. Default `unnamed`. */
  corpus?: string;
  /** Hears how it goes on, outages of the search service included. */
  onProgress?: (progress: RolloutProgress) => void;
  /** Hears of every outage once, when it begins. Default: `process.emitWarning`. */
  onWarning?: ((warning: string) => void) | undefined;
}

const SCORER = "exact-match-1";

/**
 * Answers questions with a policy and scores the answers: exact match, F1 and containment, each under its own name.
 *
 * An outage of the search service is waited for (`outage`). Questions whose search failed are left out of the means and
 * counted. If they are more than `maxFailedShare`
 * (default 0.1) of all, there is no report: a score that an outage made is none.
 *
 * @throws {@link HindsearchError} `RETRIEVAL_FAILED`, `INVALID_ARGUMENT` without questions, and what rollouts throw.
 */
export async function evaluate(options: EvaluationRunOptions): Promise<EvaluationReport> {
  const { protocol, questions, seed = 0, corpus = "unnamed" } = options;
  if (questions.length === 0) {
    throw new HindsearchError("INVALID_ARGUMENT", "An evaluation needs at least one question; found none.");
  }
  const sampling: Sampling = { ...FULL_SAMPLING, temperature: 0, ...options.sampling };
  const { groups, searches, milliseconds } = await rollout({
    ...options,
    sampling,
    seed,
    step: 0,
    groupSize: 1,
    purpose: "evaluation",
  });
  const results = groups.flat().map(scoreTrajectory);
  const statuses = { answered: 0, "no answer": 0, truncated: 0, "search failed": 0 };
  for (const { status } of results) statuses[status]++;
  if (statuses["search failed"] === results.length) {
    throw new HindsearchError("RETRIEVAL_FAILED", "Every search failed, so there is nothing to report.");
  }
  return {
    exactMatch: mean(results, ({ exactMatch }) => exactMatch),
    f1: mean(results, ({ f1 }) => f1),
    containment: mean(results, ({ containment }) => containment),
    statuses,
    searches: mean(results, ({ searches }) => searches),
    searchFailures: searches.failures,
    searchOutages: searches.outages,
    searchPausedMilliseconds: searches.pausedMilliseconds,
    results,
    settings: {
      ...protocolSettings(protocol.protocol),
      questionsHash: hashQuestions(questions),
      questions: questions.length,
      corpus,
      sampling,
      seed: String(seed),
      scorer: SCORER,
    },
    milliseconds,
  };
}

/**
 * Compares two reports question by question.
 *
 * @returns Interval of the mean difference `a - b` in exact match, over the questions that both could search for.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming the settings that differ: such scores cannot be compared.
 */
export function compareReports(
  a: EvaluationReport,
  b: EvaluationReport,
  confidence?: number,
): PairedDifference {
  const names = Object.keys(a.settings) as (keyof EvaluationSettings)[];
  const different = names.filter(
    (name) => JSON.stringify(a.settings[name]) !== JSON.stringify(b.settings[name]),
  );
  if (different.length > 0) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `These reports were made under different settings (${different.join(", ")}) and cannot be compared. Evaluate both ` +
        "policies under the same ones.",
    );
  }
  const pairs = a.results.flatMap((result, i) => {
    const other = b.results[i]?.exactMatch ?? null;
    return result.exactMatch === null || other === null ? [] : [[result.exactMatch, other] as const];
  });
  return pairedDifference(
    pairs.map(([left]) => left),
    pairs.map(([, right]) => right),
    confidence,
  );
}

/** The settings of a protocol that a score depends on. */
export function protocolSettings(
  protocol: SearchProtocol,
): Omit<EvaluationSettings, "questionsHash" | "questions" | "corpus" | "sampling" | "seed" | "scorer"> {
  const { name, maxSearches, passagesPerSearch, maxTurnTokens, maxObservationTokens, maxTokens } = protocol;
  const passage = { id: "id", title: "title", text: "text" };
  const wording = [
    protocol.prompt("question"),
    protocol.chat,
    protocol.tags,
    protocol.notice,
    protocol.observationFrame,
    protocol.formatPassages([passage, passage]),
    protocol.cutPassages,
    protocol.repeatedPassages,
  ];
  return {
    protocol: name,
    promptHash: hash(wording),
    maxSearches,
    passagesPerSearch,
    maxTurnTokens,
    maxObservationTokens,
    maxTokens,
  };
}

function scoreTrajectory({ question, answer, status, searches }: Trajectory): QuestionResult {
  const scored = status !== "search failed";
  const golds = question.goldAnswers;
  return {
    id: question.id,
    answer,
    status,
    exactMatch: scored ? exactMatch(answer, golds) : null,
    f1: scored ? f1Score(answer, golds) : null,
    containment: scored ? containsGold(answer, golds) : null,
    searches: searches.length,
  };
}

function mean(results: readonly QuestionResult[], value: (result: QuestionResult) => number | null): number {
  const values = results.map(value).filter((number) => number !== null);
  return values.reduce((sum, number) => sum + number, 0) / values.length;
}

/** Tells sets of questions apart, by their texts and gold answers in order. @internal */
export function hashQuestions(questions: readonly Question[]): string {
  return hash(questions.map(({ question, goldAnswers }) => [question, goldAnswers]));
}

function hash(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);
}

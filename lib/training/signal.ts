import { countPolicyTokens, policyMask, scopeMask, type TokenScope } from "../agent/masks.js";
import { Pacer } from "../agent/pacer.js";
import type { RolloutResult } from "../agent/rollout.js";
import type { TrajectoryStatus } from "../agent/trajectory.js";
import type { Judge } from "../judge/judge.js";
import { mentionsAnswer } from "../judge/leak.js";
import type { JudgeStats } from "../judge/statistics.js";
import type { CritiqueStatistics } from "./critiques.js";
import { type GapHealth, quantile, ratio } from "./gap.js";
import type { GroupOutcome, TrainingSample } from "./samples.js";

/** What was sampled in a step. Shares and means over nothing are `null`. */
export interface RolloutHealth {
  /** Trajectories. */
  trajectories: number;
  /** How they ended. */
  statuses: Record<TrajectoryStatus, number>;
  /** Groups by how their rewards relate; only `mixed` ones have a policy gradient. */
  groups: Record<GroupOutcome, number>;
  /** Mean reward of those that have one. */
  reward: number | null;
  /** Share of those with a reward that failed. */
  failedShare: number | null;
  /** Executed searches per trajectory. */
  searches: number | null;
  /** Turns per trajectory. */
  turns: number | null;
  /** Tokens that the policy wrote. */
  policyTokens: number;
  /** Tokens that were inserted. */
  insertedTokens: number;
  /** Entropy of the policy in nats per token: mean of `-log p` of what it sampled, which estimates it without bias. */
  entropy: number | null;
  /** Mean log-prob per trajectory that did not fail, averaged; a fall warns of collapse. */
  correctLogProb: number | null;
  /** Share of trajectories with a query that holds a gold answer. */
  answerInQueryShare: number | null;
  /** Share of trajectories that asked one query twice. */
  repeatedQueryShare: number | null;
  /** Searches that failed in the end. */
  searchFailures: number;
  /** Milliseconds with a search under way. */
  searchMilliseconds: number;
  /** Outages of the search service that were waited for. */
  searchOutages: number;
  /** Milliseconds that these lasted. */
  searchPausedMilliseconds: number;
}

/** What the judge did in a step. */
export interface JudgeHealth {
  /** Calls. */
  calls: number;
  /** Calls that gave no critique, by why. */
  failures: CritiqueStatistics["failures"];
  /** Share of calls that gave none. */
  failureShare: number | null;
  /** Share of the failed trajectories that have a critique. */
  critiqueShare: number | null;
  /** Share of critiques that state a gold answer. */
  leakShare: number | null;
  /** Mean latency of a call, milliseconds. */
  latency: number | null;
  /** Latency that 95 % of the calls stay below. */
  latencyP95: number | null;
  /** Critiques whose hint did not fit the teacher's context; their trajectories have no distillation term. */
  overBudget: number;
  /** What the judge itself counts since it was made, costs included; absent if it does not count. */
  total?: JudgeStats;
}

/** How far the policy is from the frozen reference, by the k3 estimate on what it sampled, nats per token. */
export interface ReferenceHealth {
  /** Over all tokens that the policy wrote. */
  k3: number | null;
  /** Over the tokens of the distillation scope, of all trajectories. */
  k3Search: number | null;
}

/** Gradients of the terms apart, on the first mini-batch of a measured step. */
export interface GradientHealth {
  /** Norm of the gradient of the policy term. */
  policy: number;
  /** Norm of the gradient of the distillation term, weight included. */
  distill: number;
  /** `distill / policy`; `null` if the policy term has no gradient. */
  ratio: number | null;
  /** Cosine between the two; `null` if one has no gradient. */
  cosine: number | null;
}

/** The gap under the hint, and under the controls on measured steps. */
export interface DistillationHealth {
  /** Tokens of the term as a share of the tokens that the policy wrote. */
  tokenShare: number | null;
  /** Under the hints that train. */
  gap: GapHealth;
  /** Under an empty hint, on the same trajectories. Measured steps only. */
  emptyGap?: GapHealth;
  /** Under the critique of another question, on the same trajectories. Measured steps only. */
  shuffledGap?: GapHealth;
}

/** Health of what was sampled. */
export async function rolloutHealth(
  samples: readonly TrainingSample[],
  { searches }: Pick<RolloutResult, "searches">,
): Promise<RolloutHealth> {
  const pacer = new Pacer();
  const statuses = { answered: 0, "no answer": 0, truncated: 0, "search failed": 0 };
  const scored = samples.filter(({ reward }) => reward !== null);
  const total = { searches: 0, turns: 0, tokens: 0, policyTokens: 0, logProb: 0, leaks: 0, repeats: 0 };
  const correct: number[] = [];
  for (const { trajectory, reward, failed } of samples) {
    await pacer.pause();
    const written = countPolicyTokens(trajectory);
    // Inserted tokens have log-prob 0, so the sum over all is the sum over what the policy wrote.
    const logProb = trajectory.logProbs.reduce((sum, value) => sum + value, 0);
    const queries = trajectory.searches.map(({ query }) => query);
    const { question, goldAnswers } = trajectory.question;
    statuses[trajectory.status]++;
    total.searches += queries.length;
    total.turns += trajectory.turns;
    total.tokens += trajectory.tokens.length;
    total.policyTokens += written;
    total.logProb += logProb;
    total.leaks += queries.some((query) => mentionsAnswer(query, goldAnswers, question)) ? 1 : 0;
    total.repeats += new Set(queries).size < queries.length ? 1 : 0;
    if (reward !== null && !failed && written > 0) correct.push(logProb / written);
  }
  return {
    trajectories: samples.length,
    statuses,
    groups: countGroups(samples),
    reward: ratio(sum(scored.map(({ reward }) => reward ?? 0)), scored.length),
    failedShare: ratio(scored.filter(({ failed }) => failed).length, scored.length),
    searches: ratio(total.searches, samples.length),
    turns: ratio(total.turns, samples.length),
    policyTokens: total.policyTokens,
    insertedTokens: total.tokens - total.policyTokens,
    entropy: ratio(-total.logProb, total.policyTokens),
    correctLogProb: ratio(sum(correct), correct.length),
    answerInQueryShare: ratio(total.leaks, samples.length),
    repeatedQueryShare: ratio(total.repeats, samples.length),
    searchFailures: searches.failures,
    searchMilliseconds: searches.milliseconds,
    searchOutages: searches.outages,
    searchPausedMilliseconds: searches.pausedMilliseconds,
  };
}

/** Health of the judge. */
export async function judgeHealth(
  samples: readonly TrainingSample[],
  statistics: CritiqueStatistics,
  overBudget: number,
  judge?: Pick<Judge, "stats">,
): Promise<JudgeHealth> {
  const { calls, ok, failures, latencies } = statistics;
  const failed = samples.filter((sample) => sample.failed);
  const total = judge?.stats?.();
  const pacer = new Pacer();
  let leaks = 0;
  for (const { trajectory, critique } of samples) {
    if (critique?.status !== "ok") continue;
    const { question, goldAnswers } = trajectory.question;
    if (mentionsAnswer(critique.text, goldAnswers, question)) leaks++;
    await pacer.pause();
  }
  return {
    calls,
    failures,
    failureShare: ratio(calls - ok, calls),
    critiqueShare: ratio(failed.filter(({ critique }) => critique?.status === "ok").length, failed.length),
    leakShare: ratio(leaks, ok),
    latency: ratio(sum(latencies), calls),
    latencyP95: quantile(Float64Array.from(latencies).sort(), 0.95),
    overBudget,
    ...(total && { total }),
  };
}

/** Distance from the reference; samples without reference log-probs are left out. */
export async function referenceHealth(
  samples: readonly TrainingSample[],
  scope: TokenScope,
): Promise<ReferenceHealth> {
  const pacer = new Pacer();
  const all = { sum: 0, tokens: 0 };
  const scoped = { sum: 0, tokens: 0 };
  for (const { trajectory, referenceLogProbs } of samples) {
    if (referenceLogProbs === undefined) continue;
    await pacer.pause();
    const written = policyMask(trajectory);
    const inScope = scopeMask(trajectory, scope);
    for (const [t, logProb] of trajectory.logProbs.entries()) {
      if (written[t] === 0) continue;
      const difference = (referenceLogProbs[t] as number) - logProb;
      // Not clamped: a clamp would hide what the number is there to show.
      const k3 = Math.expm1(difference) - difference;
      all.sum += k3;
      all.tokens++;
      if (inScope[t] === 0) continue;
      scoped.sum += k3;
      scoped.tokens++;
    }
  }
  return { k3: ratio(all.sum, all.tokens), k3Search: ratio(scoped.sum, scoped.tokens) };
}

function countGroups(samples: readonly TrainingSample[]): Record<GroupOutcome, number> {
  const counts = { mixed: 0, "all-fail": 0, "all-pass": 0, unscored: 0 };
  const seen = new Set<number>();
  for (const { trajectory, group } of samples) {
    if (seen.has(trajectory.group)) continue;
    seen.add(trajectory.group);
    counts[group]++;
  }
  return counts;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

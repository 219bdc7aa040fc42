import { type AbortOptions, abortable, throwIfAborted, withDeadline } from "../abort.js";
import { startPaced } from "../agent/pacer.js";
import type { Span, Trajectory } from "../agent/trajectory.js";
import { type Critique, type Judge, type JudgeInput, readCritique } from "../judge/judge.js";
import { foreignReason } from "../network/secrets.js";
import type { TrainingSample } from "./samples.js";

/** Which trajectories the distillation term may act on; all of them must have searched. */
export type TrajectoryScope =
  /** Failed ones: HindSearch's own. */
  | "failed"
  /** Failed ones of groups in which all failed, where GRPO is silent. */
  | "all-fail-groups"
  /** Failed ones of groups in which others did better. */
  | "mixed-groups"
  /** Every one with a reward. */
  | "all";

/** Options of {@link critiqueSamples}. */
export interface CritiqueOptions extends AbortOptions {
  /** Which trajectories are judged. */
  scope: TrajectoryScope;
  /** Whether the judge is told the gold answers. */
  seesGold: boolean;
  /** Milliseconds for all critiques of a step; what is missing then counts as failed. */
  deadline: number;
  /** Text of tokens, for the reasoning that a judge may read. */
  decode: (tokens: Int32Array) => string;
}

/** What the judge did in a step. */
export interface CritiqueStatistics {
  /** Trajectories that were judged. */
  calls: number;
  /** Critiques that came. */
  ok: number;
  /** Those that did not, by their status. */
  failures: Partial<Record<Exclude<Critique["status"], "ok">, number>>;
  /** Milliseconds of each call, in the order of the samples. */
  latencies: number[];
  /** Wall-clock time of all. */
  milliseconds: number;
}

/** Whether the distillation term may act on a sample, critique permitting. */
export function inScope(
  { trajectory, failed, reward, group }: TrainingSample,
  scope: TrajectoryScope,
): boolean {
  if (reward === null || trajectory.searches.length === 0) return false;
  switch (scope) {
    case "all":
      return true;
    case "failed":
      return failed;
    case "all-fail-groups":
      return failed && group === "all-fail";
    case "mixed-groups":
      return failed && group === "mixed";
  }
}

/**
 * Asks the judge about the samples in scope, all at once (a judge limits its own concurrency), and writes what it says
 * to them. A judge that throws or does not answer in time is a `failed` critique: it leaves its trajectory without a
 * distillation term and does not end the step.
 *
 * @throws {@link HindsearchError} `ABORTED` only.
 */
export async function critiqueSamples(
  samples: readonly TrainingSample[],
  judge: Judge,
  options: CritiqueOptions,
): Promise<CritiqueStatistics> {
  const { scope, deadline, signal } = options;
  const judged = samples.filter((sample) => inScope(sample, scope));
  const started = performance.now();
  const latencies = await withDeadline(deadline, signal, (inner, timedOut) =>
    startPaced(judged, async (sample) => {
      const asked = performance.now();
      try {
        const input = judgeInput(sample.trajectory, options);
        sample.critique = readCritique(await abortable(judge.critique(input, { signal: inner }), inner));
      } catch (error) {
        throwIfAborted(signal);
        const reason = timedOut() ? `no critique within ${deadline} ms` : foreignReason(String(error));
        sample.critique = { status: "failed", reason };
      }
      return performance.now() - asked;
    }),
  );
  const failures: CritiqueStatistics["failures"] = {};
  for (const { critique } of judged) {
    if (critique && critique.status !== "ok")
      failures[critique.status] = (failures[critique.status] ?? 0) + 1;
  }
  const ok = judged.filter(({ critique }) => critique?.status === "ok").length;
  return { calls: judged.length, ok, failures, latencies, milliseconds: performance.now() - started };
}

/** A trajectory as a judge reads it. */
export function judgeInput(
  trajectory: Trajectory,
  { seesGold, decode }: Pick<CritiqueOptions, "seesGold" | "decode">,
): JudgeInput {
  const { question, searches, answer, tokens, spans } = trajectory;
  return {
    question: question.question,
    goldAnswers: seesGold ? question.goldAnswers : null,
    answer,
    steps: searches.map(({ query, passages, start }) => {
      const thought = thoughtBefore(spans, start);
      const reasoning = thought && decode(tokens.subarray(thought.start, thought.end)).trim();
      return { query, passages, ...(reasoning ? { reasoning } : {}) };
    }),
  };
}

/** What the policy wrote just before a search: the last `think` span with nothing but the tag between. */
function thoughtBefore(spans: readonly Span[], start: number): Span | undefined {
  const before = spans.filter(({ end }) => end <= start).slice(-2);
  return before.at(-1)?.kind === "tag" && before[0]?.kind === "think" ? before[0] : undefined;
}

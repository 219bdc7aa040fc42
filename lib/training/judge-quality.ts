import type { AbortOptions } from "../abort.js";
import { BoundProtocol } from "../agent/bound-protocol.js";
import type { SearchProtocol } from "../agent/protocol.js";
import type { Trajectory } from "../agent/trajectory.js";
import { HindsearchError } from "../errors.js";
import { type PairedDifference, pairedDifference } from "../evaluation/paired.js";
import type { Judge } from "../judge/judge.js";
import type { JudgeStats } from "../judge/statistics.js";
import type { Policy } from "../policy/policy.js";
import { type CritiqueStatistics, critiqueSamples } from "./critiques.js";
import { type HintControl, hintsOf } from "./hints.js";
import { contrastQueries, type Deviation, deviationOf, type QueryContrast } from "./query-contrast.js";
import type { TrainingSample } from "./samples.js";
import { judgeHealth } from "./signal.js";

/** Options of {@link evaluateJudge}. */
export interface JudgeQualityOptions extends AbortOptions {
  /** The model that will train, frozen: the teacher. */
  teacher: Policy;
  /** That the trajectories were sampled with. */
  protocol: SearchProtocol;
  /**
   * The queries that lead to the answer, in order: of a solved attempt at the same question, from the titles of its gold
   * passages, or known from how the question was made. `undefined` leaves a trajectory out.
   */
  goldQueries: (trajectory: Trajectory) => readonly string[] | undefined;
  /** Whether the judge is told the gold answers. Default true. */
  seesGold?: boolean;
  /** Milliseconds to wait for all critiques. Default 600,000. */
  deadline?: number;
  /** Tokens of hint, prompt and trajectory that the teacher reads at most. Default: the model's positions. */
  maxTeacherTokens?: number;
  /** Of the intervals. Default 0.95. */
  confidence?: number;
  /** Tokens that are scored together; no result depends on it. Default: the engine's. */
  microBatchTokens?: number;
}

/** A figure under each hint; `null` where no trajectory has that hint. */
export type ByHint = Record<HintControl, PairedDifference | null>;

/**
 * What a judge's critiques do to the teacher. Differences are in nats per token, first averaged over the trajectories of
 * a question: `n` counts questions.
 */
export interface JudgeQuality {
  /** Failed trajectories with a search. */
  trajectories: number;
  /** What the judge did. */
  critiques: CritiqueStatistics;
  /** Share of trajectories that got a critique. */
  critiqueShare: number | null;
  /** Share of critiques that state a gold answer. */
  leakShare: number | null;
  /** Trajectories with a critique, a gold path that they left, and room for the hint: those that are measured. */
  measured: number;
  /** Left out: without a gold path, or without a search that is not on it. */
  withoutDeviation: number;
  /** Left out: a hinted context is longer than the teacher reads. */
  overBudget: number;
  /** How much the hint raises the log-prob of the gold path's query; higher is better. */
  gold: ByHint;
  /** How much it raises that of the query that was made instead; lower is better. */
  failed: ByHint;
  /** The difference of the two: how much the hint turns the teacher from the one to the other. */
  separation: ByHint;
  /** Separation of the critique minus that of an empty hint: what its words do. */
  overEmpty: PairedDifference | null;
  /** Separation of the critique minus that of another question's: what they do for this question. */
  overShuffled: PairedDifference | null;
  /** What the judge itself counts, costs included. */
  total?: JudgeStats;
}

const CONTROLS: readonly HintControl[] = ["real", "empty", "shuffled"];

/**
 * Measures a judge without training: how much its critiques raise the frozen teacher's probability of the query that the
 * gold path has where a failed trajectory left it, and lower that of the query that was made there. That contrast is
 * what the HindSearch term learns from; a judge under which it is no larger than under an empty hint, or under another
 * question's critique, cannot teach.
 *
 * @param judge - Asked about every trajectory once.
 * @param trajectories - Failed ones, of at least two questions; those without a search are left out.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a teacher that is not frozen, or trajectories that were not sampled
 * at one temperature; `ABORTED`; what the teacher's scoring throws.
 */
export async function evaluateJudge(
  judge: Judge,
  trajectories: readonly Trajectory[],
  options: JudgeQualityOptions,
): Promise<JudgeQuality> {
  const { teacher, signal, seesGold = true, deadline = 600_000, confidence = 0.95 } = options;
  if (!teacher.frozen) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "The teacher must not change while it is measured with: give evaluateJudge a frozen policy, e.g. await policy.snapshot().",
    );
  }
  const protocol = new BoundProtocol(options.protocol, teacher);
  const samples = trajectories.filter(({ searches }) => searches.length > 0).map(failedSample);
  const decode = (tokens: Int32Array) => protocol.decode(tokens);
  const critiques = await critiqueSamples(samples, judge, {
    scope: "failed",
    seesGold,
    deadline,
    decode,
    signal,
  });
  const { critiqueShare, leakShare, total } = await judgeHealth(samples, critiques, 0, judge);
  const { contrasts, withoutDeviation, overBudget } = await measure(samples, protocol, options);
  const compare = comparison(contrasts, confidence);
  return {
    trajectories: samples.length,
    critiques,
    critiqueShare,
    leakShare,
    measured: contrasts.length,
    withoutDeviation,
    overBudget,
    gold: byHint((hint) =>
      compare(
        (one) => one[hint]?.gold,
        ({ plain }) => plain.gold,
      ),
    ),
    failed: byHint((hint) =>
      compare(
        (one) => one[hint]?.failed,
        ({ plain }) => plain.failed,
      ),
    ),
    separation: byHint((hint) =>
      compare(
        (one) => preference(one[hint]),
        ({ plain }) => preference(plain),
      ),
    ),
    overEmpty: compare(
      (one) => preference(one.real),
      (one) => preference(one.empty),
    ),
    overShuffled: compare(
      (one) => preference(one.real),
      (one) => preference(one.shuffled),
    ),
    ...(total && { total }),
  };
}

/** One trajectory under every hint. */
interface Contrasts extends Partial<Record<HintControl, QueryContrast>> {
  question: string;
  plain: QueryContrast;
}

async function measure(
  samples: readonly TrainingSample[],
  protocol: BoundProtocol,
  options: JudgeQualityOptions,
): Promise<{ contrasts: Contrasts[]; withoutDeviation: number; overBudget: number }> {
  const { teacher, goldQueries, maxTeacherTokens, microBatchTokens, signal } = options;
  const critiqued = samples.filter(({ critique }) => critique?.status === "ok");
  const places = critiqued.flatMap((sample): { sample: TrainingSample; deviation: Deviation }[] => {
    const queries = goldQueries(sample.trajectory);
    const deviation = queries && deviationOf(sample.trajectory, queries);
    return deviation ? [{ sample, deviation }] : [];
  });
  const score = (hints: readonly (string | undefined)[]) =>
    contrastQueries(
      teacher,
      protocol,
      places.map(({ deviation }) => deviation),
      hints,
      {
        temperature: temperatureOf(samples),
        maxTokens: maxTeacherTokens ?? teacher.config.maxPositions,
        microBatchTokens,
        signal,
      },
    );
  const plain = await score(places.map(() => undefined));
  const hinted = new Map<HintControl, (QueryContrast | undefined)[]>();
  for (const control of CONTROLS) {
    // Of all critiques, so that another question's is found where it can be.
    const hints = hintsOf(samples, control);
    const given = places.map(({ sample }) => hints.get(sample));
    const scored = await score(given);
    hinted.set(
      control,
      scored.map((contrast, i) => (given[i] === undefined ? undefined : contrast)),
    );
  }
  const contrasts = places.flatMap(({ sample }, i): Contrasts[] => {
    const unhinted = plain[i];
    const real = hinted.get("real")?.[i];
    if (unhinted === undefined || real === undefined) return [];
    const [empty, shuffled] = (["empty", "shuffled"] as const).map((control) => hinted.get(control)?.[i]);
    return [
      {
        question: sample.trajectory.question.question,
        plain: unhinted,
        real,
        ...(empty && { empty }),
        ...(shuffled && { shuffled }),
      },
    ];
  });
  return {
    contrasts,
    withoutDeviation: critiqued.length - places.length,
    overBudget: places.length - contrasts.length,
  };
}

/** Differences of two figures, averaged by question: the trajectories of one question are no independent samples. */
function comparison(contrasts: readonly Contrasts[], confidence: number) {
  type Figure = (contrasts: Contrasts) => number | undefined;
  return (a: Figure, b: Figure): PairedDifference | null => {
    const questions = new Map<string, [number, number][]>();
    for (const one of contrasts) {
      const [left, right] = [a(one), b(one)];
      if (left === undefined || right === undefined) continue;
      questions.set(one.question, [...(questions.get(one.question) ?? []), [left, right]]);
    }
    if (questions.size === 0) return null;
    const side = (which: 0 | 1) =>
      [...questions.values()].map(
        (pairs) => pairs.reduce((sum, pair) => sum + pair[which], 0) / pairs.length,
      );
    return pairedDifference(side(0), side(1), confidence);
  };
}

function preference(contrast: QueryContrast | undefined): number | undefined {
  return contrast && contrast.gold - contrast.failed;
}

function byHint(figure: (hint: HintControl) => PairedDifference | null): ByHint {
  return { real: figure("real"), empty: figure("empty"), shuffled: figure("shuffled") };
}

function failedSample(trajectory: Trajectory): TrainingSample {
  return { trajectory, reward: 0, components: {}, advantage: 0, failed: true, group: "all-fail" };
}

function temperatureOf(samples: readonly TrainingSample[]): number {
  const temperatures = new Set(samples.map(({ trajectory }) => trajectory.sampling.temperature));
  const [temperature = 1] = temperatures;
  if (temperatures.size <= 1 && temperature > 0) return temperature;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `The trajectories were sampled at temperatures ${[...temperatures].join(", ")}; expected one, above 0.`,
  );
}

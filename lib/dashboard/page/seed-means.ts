import { type PairedDifference, pairedDifference } from "../../evaluation/paired.js";
import type { MeasureName } from "../measures.js";
import type { CompareReply, EvaluationPoints, PairedPoints, Values } from "../messages.js";
import type { DrawnRun } from "./drawn-run.js";

/** Whether some of the runs differ in nothing but their seed. */
export function haveSeeds(runs: readonly DrawnRun[]): boolean {
  return new Set(runs.map(({ summary }) => summary.settings)).size < runs.length;
}

/**
 * Runs with the same settings as one, its curves the means over their seeds. Intervals are Student's t over the seeds, and
 * differences are paired by seed: what is left is how much the outcome depends on chance.
 *
 * @param base - Id of a run whose settings the others are compared with.
 */
export function averageSeeds(
  runs: readonly DrawnRun[],
  base: string | undefined,
): { runs: DrawnRun[]; compare: CompareReply | undefined } {
  const arms = new Map<string, DrawnRun[]>();
  for (const run of runs) {
    const { settings } = run.summary;
    arms.set(settings, [...(arms.get(settings) ?? []), run]);
  }
  const groups = [...arms.values()];
  const means = groups.map(meanRun);
  const place = Math.max(
    0,
    groups.findIndex((group) => group.some(({ summary }) => summary.id === base)),
  );
  const [baseGroup, baseMean] = [groups[place], means[place]];
  if (baseGroup === undefined || baseMean === undefined || groups.length < 2) {
    return { runs: means, compare: undefined };
  }
  const pairs = groups.flatMap((group, i) => {
    const mean = means[i];
    if (i === place || mean === undefined) return [];
    return [{ run: mean.summary.id, differences: differences(group, baseGroup), reason: null }];
  });
  return { runs: means, compare: { base: baseMean.summary.id, pairs } };
}

function meanRun(group: DrawnRun[]): DrawnRun {
  const [first] = group as [DrawnRun];
  if (group.length === 1) return first;
  const steps = [...new Set(group.flatMap(({ curves }) => curves.steps))].sort((a, b) => a - b);
  const columns = group.map(({ curves }) => new Map(curves.steps.map((step, i) => [step, i])));
  const measures = Object.fromEntries(
    (Object.keys(first.curves.measures) as MeasureName[]).map((name) => [
      name,
      steps.map((step) =>
        mean(group.map(({ curves }, run) => curves.measures[name]?.[columns[run]?.get(step) ?? -1] ?? null)),
      ),
    ]),
  );
  return {
    ...first,
    name: `${first.summary.method} × ${group.length} (${first.name})`,
    curves: {
      ...first.curves,
      steps,
      measures,
      evaluations: modesOf(group).map((mode) => meanEvaluation(group, mode)),
    },
  };
}

function meanEvaluation(group: readonly DrawnRun[], mode: string): EvaluationPoints {
  const points = group.map((run) => pointsOf(run, mode));
  const x = [...new Set(points.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
  const spreads = x.map((at) =>
    spread(
      points.flatMap((one) => one.get(at) ?? []),
      undefined,
    ),
  );
  const nothing: Values = x.map(() => null);
  return { mode, x, ...columnsOf(spreads, "exactMatch"), f1: nothing, searches: nothing };
}

/** At every evaluation that both arms made under a seed. */
function differences(group: readonly DrawnRun[], base: readonly DrawnRun[]): PairedPoints[] {
  return modesOf(group).flatMap((mode): PairedPoints[] => {
    const pairs = group.flatMap((run) => {
      const other = base.find(({ summary }) => summary.seed === run.summary.seed);
      return other === undefined ? [] : [[pointsOf(run, mode), pointsOf(other, mode)] as const];
    });
    const x = [
      ...new Set(pairs.flatMap(([one, other]) => [...one.keys()].filter((at) => other.has(at)))),
    ].sort((a, b) => a - b);
    if (x.length === 0) return [];
    const spreads = x.map((at) => {
      const both = pairs.filter(([one, other]) => one.has(at) && other.has(at));
      return spread(
        both.map(([one]) => one.get(at) as number),
        both.map(([, other]) => other.get(at) as number),
      );
    });
    return [{ mode, x, ...columnsOf(spreads, "mean"), questions: 0 }];
  });
}

function modesOf(group: readonly DrawnRun[]): string[] {
  return [...new Set(group.flatMap(({ curves }) => curves.evaluations.map(({ mode }) => mode)))];
}

/** Exact match by steps done. */
function pointsOf({ curves }: DrawnRun, mode: string): Map<number, number> {
  const points = curves.evaluations.find((one) => one.mode === mode);
  return new Map(
    (points?.x ?? []).flatMap((x, i): [number, number][] => {
      const value = points?.exactMatch[i];
      return value === null || value === undefined ? [] : [[x, value]];
    }),
  );
}

function spread(
  values: readonly number[],
  others: readonly number[] | undefined,
): PairedDifference | undefined {
  if (values.length === 0) return undefined;
  return pairedDifference(values, others ?? values.map(() => 0));
}

function columnsOf<Name extends string>(spreads: readonly (PairedDifference | undefined)[], name: Name) {
  const column = (key: "mean" | "low" | "high"): Values => spreads.map((one) => one?.[key] ?? null);
  return { [name]: column("mean"), low: column("low"), high: column("high") } as Record<
    Name | "low" | "high",
    Values
  >;
}

function mean(values: readonly (number | null)[]): number | null {
  const present = values.filter((value) => value !== null);
  return present.length === 0 ? null : present.reduce((sum, value) => sum + value, 0) / present.length;
}

import { expect } from "vitest";
import { trajectoryFromJson } from "../../lib/agent/trajectory-json.js";
import { RunDirectory, type RunLog } from "../../lib/runs/run.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import type { TrainingSample } from "../../lib/training/samples.js";

/** Expects the numbers of a training step to be there, to be finite, and to agree with its trajectories. */
export function expectHealthy({ metrics, groups }: TrainingStepResult): void {
  const samples = groups.flat();
  const { rollout, judge, distillation, reference, updates } = metrics;
  expectFinite(metrics, "metrics");
  expect(rollout.trajectories).toBe(samples.length);
  for (const [status, count] of Object.entries(rollout.statuses)) {
    expect(samples.filter(({ trajectory }) => trajectory.status === status).length, status).toBe(count);
  }
  const judged = samples.filter(({ failed, trajectory }) => failed && trajectory.searches.length > 0);
  const hinted = samples.filter(({ critique }) => critique?.status === "ok");
  const failures = Object.values(judge?.failures ?? {}).reduce((sum, count) => sum + count, 0);
  expect(judge?.calls).toBe(judged.length);
  expect(failures).toBe(judged.length - hinted.length);
  expect(samples.filter(({ teacherLogProbs }) => teacherLogProbs)).toEqual(hinted);
  const sum = (name: "policyTokens" | "distillTokens") =>
    updates.reduce((total, update) => total + update[name], 0);
  expect(sum("policyTokens")).toBe(rollout.policyTokens);
  expect(sum("distillTokens")).toBe(distillation?.gap.tokens);
  expect(reference?.k3).toBeGreaterThanOrEqual(0);
  expect(metrics.rolloutGap).toBe(0);
  expect(updates.every(({ skipped }) => skipped === null)).toBe(true);
}

function expectFinite(value: unknown, path: string): void {
  if (typeof value === "number") expect(value, path).toSatisfy(Number.isFinite);
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) expectFinite(inner, `${path}.${key}`);
}

/** Expects a run folder to hold what the steps yielded. */
export async function expectRecorded(folder: string, results: readonly TrainingStepResult[]): Promise<void> {
  const run = await RunDirectory.open(folder);
  const read = async (log: RunLog) => {
    const records: Record<string, unknown>[] = [];
    for await (const record of run.read(log)) records.push(record);
    return records;
  };
  const json = (value: unknown) => JSON.parse(JSON.stringify(value));
  const metrics = await read("metrics");
  const steps = metrics.filter(({ kind }) => kind === "step");
  expect(steps).toEqual(results.map((result) => json({ kind: "step", ...result.metrics })));
  const evaluations = results.flatMap((result) => result.evaluations.map(({ report }) => json(report)));
  expect(metrics.filter(({ kind }) => kind === "evaluation")).toMatchObject(evaluations);

  const samples = results.flatMap(({ groups }) => groups.flat());
  const records = await read("trajectories");
  expect(records.length).toBe(samples.length);
  for (const [i, record] of records.entries()) {
    const { trajectory, reward, components, advantage, critique } = samples[i] as TrainingSample;
    expect(trajectoryFromJson(record)).toMatchObject(trajectory);
    expect(record).toMatchObject({ reward, components, advantage });
    expect(record.critique).toEqual(critique);
  }
}

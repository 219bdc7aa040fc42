import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SpanKind, Trajectory } from "../../lib/agent/trajectory.js";
import type { TrainingSample } from "../../lib/training/samples.js";
import { trajectoryRecord } from "../../lib/training/trajectory-record.js";
import { sampleOf } from "../training/samples.js";

/** Every token says " w" and its id. */
const WORDS = Array.from({ length: 400 }, (_, id) => Buffer.from(` w${id}`));
const OFFSETS = Uint32Array.from([0, ...WORDS.map(({ length }) => length)]);
for (let id = 1; id < OFFSETS.length; id++) OFFSETS[id] = (OFFSETS[id] ?? 0) + (OFFSETS[id - 1] ?? 0);
const DETAILS = {
  tokenizer: { tokenBytes: () => ({ bytes: new Uint8Array(Buffer.concat(WORDS)), offsets: OFFSETS }) },
  scope: "search",
  clamp: [0, 1],
} as const;

const KINDS: SpanKind[] = [
  "think",
  "tag",
  "search",
  "search",
  "tag",
  "observation",
  "think",
  "answer",
  "tag",
];

/** A line of `trajectories.jsonl` as the trainer writes it: one search of two tokens, teacher and reference included. */
export function recordOf(
  id: string,
  trajectory: Partial<Trajectory> = {},
  sample: Partial<Omit<TrainingSample, "trajectory">> = {},
): Record<string, unknown> {
  const [step = 0, group = 0, member = 0] = id.split("-").map(Number);
  const place = { id, step, group, sample: member };
  const made = sampleOf(
    {
      ...place,
      question: { id: `q${group}`, question: `Who wrote book ${group}?`, goldAnswers: ["Ada Lovelace"] },
      searches: [
        {
          query: "book author",
          passages: [
            { id: "p1", title: "A book", text: "It was written by Ada Lovelace in 1843.", score: 7.5 },
          ],
          start: 2,
          end: 4,
        },
      ],
      answer: "Babbage",
      status: "answered",
      ...trajectory,
    },
    {
      teacherLogProbs: Float32Array.of(0, 0, -0.125, -1, 0, 0, 0, 0, 0),
      referenceLogProbs: Float32Array.of(-1, -1, -0.5, -0.75, -1, 0, -1, -1, -1),
      components: { exactMatch: 0 },
      critique: { status: "ok", text: "Search for the author's name." },
      ...sample,
    },
    KINDS,
  );
  return trajectoryRecord(made, step, DETAILS);
}

/** A line of `metrics.jsonl` for a training step. */
export function stepOf(step: number, overrides: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    kind: "step",
    step,
    rollout: {
      trajectories: 10,
      statuses: { answered: 9, "no answer": 1, truncated: 0, "search failed": 0 },
      groups: { mixed: 1, "all-fail": 1, "all-pass": 0, unscored: 0 },
      reward: 0.2 + step / 100,
      searches: 2,
      policyTokens: 120,
      insertedTokens: 300,
      entropy: 0.5,
    },
    judge: { critiqueShare: 1, failureShare: 0, leakShare: 0 },
    distillation: { tokenShare: 0.2, gap: { mean: 0.1, meanWeight: 0.2 }, emptyGap: { meanWeight: 0.01 } },
    reference: { k3: 0.01 },
    rolloutGap: 0,
    updates: [
      { gradientNorm: 1, skipped: null },
      { gradientNorm: 2, skipped: null },
    ],
    milliseconds: { rollout: 500, judgeAndReference: 100, teacher: 100, update: 300, total: 1000 },
    ...overrides,
  };
}

/** A line of `metrics.jsonl` for an evaluation; one exact match per question. */
export function evaluationOf(
  stepsDone: number,
  scores: readonly (number | null)[],
  mode = "greedy",
  hash = "h",
) {
  const known = scores.filter((score) => score !== null);
  return {
    kind: "evaluation",
    step: Math.max(0, stepsDone - 1),
    stepsDone,
    mode,
    exactMatch: known.reduce((sum, score) => sum + score, 0) / known.length,
    f1: 0.5,
    searches: 2,
    results: scores.map((exactMatch, i) => ({ id: `q${i}`, exactMatch })),
    settings: { questionsHash: hash },
  };
}

/** Lines of a file. */
export function lines(records: readonly unknown[]): string {
  return records.map((record) => `${JSON.stringify(record)}\n`).join("");
}

/** Writes a run folder. */
export async function writeRun(
  folder: string,
  metrics: readonly unknown[],
  trajectories: readonly unknown[],
  config: unknown = {
    steps: 20,
    seed: 1,
    participants: { policy: "tiny", judge: "ChatJudge" },
    distillation: {},
  },
): Promise<string> {
  await mkdir(join(folder, "checkpoints"), { recursive: true });
  const identity = { version: 1, id: "an id", created: "2026-01-01T00:00:00.000Z" };
  await writeFile(join(folder, "run.json"), JSON.stringify(identity));
  await writeFile(join(folder, "config.json"), JSON.stringify(config));
  await writeFile(join(folder, "metrics.jsonl"), lines(metrics));
  await writeFile(join(folder, "trajectories.jsonl"), lines(trajectories));
  return folder;
}

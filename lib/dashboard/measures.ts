/** Reads a number out of a line of `metrics.jsonl`; `null` where there is none. The file is not trusted. */
export type Measure = (line: unknown) => number | null;

/** The value at a path of keys, or `undefined`. */
export function valueAt(line: unknown, path: string): unknown {
  let value = line;
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** The finite number at a path of keys. */
export function numberAt(line: unknown, path: string): number | null {
  const value = valueAt(line, path);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

const at =
  (path: string): Measure =>
  (line) =>
    numberAt(line, path);

/** Of two numbers that are both there. */
function over(part: number | null, whole: number | null): number | null {
  return part === null || whole === null || whole === 0 ? null : part / whole;
}

/** Mean over the updates of the step. */
const ofUpdates =
  (key: string): Measure =>
  (line) => {
    const updates = valueAt(line, "updates");
    if (!Array.isArray(updates)) return null;
    const values = updates.map((update) => numberAt(update, key)).filter((value) => value !== null);
    return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
  };

const share =
  (part: string, whole: string): Measure =>
  (line) =>
    over(numberAt(line, part), numberAt(line, whole));

const groups: Measure = (line) => {
  const counts = valueAt(line, "rollout.groups");
  if (typeof counts !== "object" || counts === null) return null;
  return Object.keys(counts).reduce((sum, name) => sum + (numberAt(counts, name) ?? 0), 0);
};

const groupShare =
  (name: string): Measure =>
  (line) =>
    over(numberAt(line, `rollout.groups.${name}`), groups(line));

/** Of a number of milliseconds. */
const inSeconds =
  (path: string): Measure =>
  (line) => {
    const value = numberAt(line, path);
    return value === null ? null : value / 1000;
  };

/** Everything that is drawn or judged of a training step, by name. */
export const MEASURES = {
  reward: at("rollout.reward"),
  failed: at("rollout.failedShare"),
  mixed: groupShare("mixed"),
  allFail: groupShare("all-fail"),
  allPass: groupShare("all-pass"),
  searches: at("rollout.searches"),
  turns: at("rollout.turns"),
  entropy: at("rollout.entropy"),
  correctLogProb: at("rollout.correctLogProb"),
  answerInQuery: at("rollout.answerInQueryShare"),
  repeatedQuery: at("rollout.repeatedQueryShare"),
  truncated: share("rollout.statuses.truncated", "rollout.trajectories"),
  noAnswer: share("rollout.statuses.no answer", "rollout.trajectories"),
  searchFailed: share("rollout.statuses.search failed", "rollout.trajectories"),
  policyTokens: share("rollout.policyTokens", "rollout.trajectories"),
  kl: at("reference.k3"),
  klSearch: at("reference.k3Search"),
  coverage: at("distillation.tokenShare"),
  gap: at("distillation.gap.mean"),
  emptyGap: at("distillation.emptyGap.mean"),
  shuffledGap: at("distillation.shuffledGap.mean"),
  weight: at("distillation.gap.meanWeight"),
  emptyWeight: at("distillation.emptyGap.meanWeight"),
  shuffledWeight: at("distillation.shuffledGap.meanWeight"),
  saturated: at("distillation.gap.shareSaturated"),
  moved: at("distillation.gap.shareMoved"),
  gradientRatio: at("gradients.ratio"),
  gradientCosine: at("gradients.cosine"),
  distillationWeight: at("distillationWeight"),
  judged: at("judge.critiqueShare"),
  judgeFailed: at("judge.failureShare"),
  leaked: at("judge.leakShare"),
  judgeLatency: inSeconds("judge.latencyP95"),
  rolloutGap: at("rolloutGap"),
  gradientNorm: ofUpdates("gradientNorm"),
  clipped: ofUpdates("clipFractionHigh"),
  clippedLow: ofUpdates("clipFractionLow"),
  loss: ofUpdates("loss"),
  distillLoss: ofUpdates("distillLoss"),
  learningRate: ofUpdates("learningRate"),
  skipped: (line) => {
    const updates = valueAt(line, "updates");
    if (!Array.isArray(updates)) return null;
    return updates.filter((update) => valueAt(update, "skipped") === "non-finite").length;
  },
  stepSeconds: inSeconds("milliseconds.total"),
  rolloutSeconds: inSeconds("milliseconds.rollout"),
  judgeSeconds: inSeconds("milliseconds.judgeAndReference"),
  teacherSeconds: inSeconds("milliseconds.teacher"),
  updateSeconds: inSeconds("milliseconds.update"),
  searchSeconds: inSeconds("rollout.searchMilliseconds"),
  tokensPerSecond: (line) => {
    const written = numberAt(line, "rollout.policyTokens");
    const inserted = numberAt(line, "rollout.insertedTokens");
    const time = numberAt(line, "milliseconds.total");
    return written === null || inserted === null || !time ? null : ((written + inserted) * 1000) / time;
  },
  rolloutTokensPerSecond: (line) => {
    const written = numberAt(line, "rollout.policyTokens");
    const time = numberAt(line, "milliseconds.rollout");
    return written === null || !time ? null : (written * 1000) / time;
  },
} satisfies Record<string, Measure>;

/** Name of a measure. */
export type MeasureName = keyof typeof MEASURES;

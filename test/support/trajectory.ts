import type { SearchRecord, Span, SpanKind, Trajectory } from "../../lib/agent/trajectory.js";

/**
 * A trajectory of the given kinds, one token each: token t has id t + 100, and log-prob -(t + 1) / 8 if the policy
 * wrote it.
 */
export function trajectoryOf(kinds: SpanKind[], overrides: Partial<Trajectory> = {}): Trajectory {
  const spans: Span[] = [];
  kinds.forEach((kind, t) => {
    const last = spans.at(-1);
    if (last?.kind === kind) last.end = t + 1;
    else spans.push({ start: t, end: t + 1, kind });
  });
  const searches: SearchRecord[] = spans
    .filter(({ kind }) => kind === "search")
    .map(({ start, end }) => ({ query: `query at ${start}`, passages: [], start, end }));
  const inserted = (kind: SpanKind) => kind === "observation" || kind === "notice";
  return {
    id: "0-0-0",
    step: 0,
    group: 0,
    sample: 0,
    question: { id: "q", question: "Who?", goldAnswers: ["Ada"] },
    promptTokens: Int32Array.of(1, 2, 3),
    tokens: Int32Array.from(kinds, (_, t) => t + 100),
    logProbs: Float32Array.from(kinds, (kind, t) => (inserted(kind) ? 0 : -(t + 1) / 8)),
    spans,
    searches,
    answer: null,
    status: "no answer",
    turns: 1,
    weightsVersion: [1, 1],
    sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
    key: { seed: 1n, stream: 2n },
    ...overrides,
  };
}

// The rows of judge-faults.ts, which docs/faults.md shows. A fault is met twice: once by itself, then for ever.
import { describe, expect, test, vi } from "vitest";
import { ChatJudge } from "../../lib/judge/chat.js";
import { correct, INPUT, KEY, TEXT } from "../judge/chat-service.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { LoopbackServer } from "../support/loopback-server.js";
import { first } from "../support/misbehaviour.js";
import { JUDGE_FAULTS, type JudgeFault, SETTINGS } from "./judge-faults.js";

async function meet(
  { serve, options, timeoutMs = SETTINGS.timeoutMs }: JudgeFault,
  times = Number.POSITIVE_INFINITY,
) {
  const server = await LoopbackServer.start(first(times, serve, correct));
  const judge = new ChatJudge({
    baseURL: `${server.origin}/v1`,
    model: "judge-model",
    tokenizer: byteTokenizer(),
    apiKey: KEY,
    structured: "never",
    breakerFailures: 1000,
    ...SETTINGS,
    // What is good is to arrive in time on a busy machine too.
    timeoutMs: times === 1 ? 5 * timeoutMs : timeoutMs,
    ...options,
  });
  return { server, judge, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

const options = { timeout: 20_000 };
// They mostly wait.
vi.setConfig({ maxConcurrency: 12 });
const cases = (...fates: JudgeFault["fate"][]) =>
  JUDGE_FAULTS.filter(({ fate }) => fates.length === 0 || fates.includes(fate)).map((row) => ({
    row,
    ...row,
  }));

describe.concurrent("a judge", options, () => {
  test.for(cases("repeated"))("$fault, once: made good by a repetition", async ({ row }) => {
    await using met = await meet(row, 1);
    expect(await met.judge.critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    expect(met.server.requests).toHaveLength(2);
    // Timers count from the last tick.
    expect(met.server.gaps[0]).toBeGreaterThanOrEqual((row.wait?.least ?? 0) - 2);
    expect(met.judge.stats()).toMatchObject({ calls: 1, ok: 1 });
    const [one, other] = met.server.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(one).toBeDefined();
    expect(other).toBe(one);
  });

  test.for(cases())("$fault: $status", async ({ row }) => {
    const { fate, status, says, charge } = row;
    const repeated = 1 + SETTINGS.retries;
    const requests = { repeated, final: 1, passes: 1, "asked once more": 2, "not asked": 0 }[fate];
    await using met = await meet(row);
    const critique = await met.judge.critique(INPUT);
    expect(critique).toMatchObject(
      status === "ok" ? { status, text: TEXT } : { status, reason: expect.stringContaining(says) },
    );
    if (fate === "repeated")
      expect(critique).toMatchObject({ reason: expect.stringContaining("(3 attempts)") });
    expect(met.server.requests).toHaveLength(requests);
    const { calls, failures, usage } = met.judge.stats();
    expect(calls).toBe(1);
    if (critique.status !== "ok") expect(failures[critique.status]).toBe(1);
    expect(usage.requests).toBe(charge === "nothing" ? 0 : requests);
    expect(usage.estimated).toBe(charge === "its most" ? requests : 0);
    if (charge === "its most") expect(usage.promptTokens).toBeGreaterThan(500 * requests);
  });

  test.for(cases("passes"))("$fault: nothing of it is taken for the next answer", async ({ row }) => {
    await using met = await meet(row);
    for (const answer of ["London", "Paris"]) {
      expect(await met.judge.critique({ ...INPUT, answer })).toMatchObject({ status: "ok", text: TEXT });
    }
  });
});

import { describe, expect, test } from "vitest";
import type { JudgeStats } from "../../lib/judge/statistics.js";
import { judgeHealth, referenceHealth, rolloutHealth } from "../../lib/training/signal.js";
import { sampleOf } from "./samples.js";

const SEARCHES = {
  searches: { searches: 3, failures: 1, calls: 2, milliseconds: 7, outages: 2, pausedMilliseconds: 5 },
};

describe("rolloutHealth", () => {
  test("by hand", async () => {
    const search = (query: string) => ({ query, passages: [], start: 2, end: 4 });
    const samples = [
      sampleOf({ group: 0, answer: "Bob", status: "answered", turns: 2, searches: [search("who is Ada L")] }),
      sampleOf({ group: 0, turns: 3, searches: [search("x"), search("x")] }, { reward: 1, failed: false }, [
        "think",
        "observation",
        "think",
      ]),
      sampleOf(
        { group: 1, status: "search failed" },
        { reward: null, advantage: null, failed: false, group: "unscored" },
      ),
      sampleOf({ group: 2, status: "truncated", searches: [] }, { group: "all-fail" }),
    ];
    const health = await rolloutHealth(samples, SEARCHES);
    expect(health).toMatchObject({
      trajectories: 4,
      statuses: { answered: 1, "no answer": 1, truncated: 1, "search failed": 1 },
      groups: { mixed: 1, "all-fail": 1, "all-pass": 0, unscored: 1 },
      reward: 1 / 3,
      failedShare: 2 / 3,
      searches: 1,
      turns: 7 / 4,
      policyTokens: 6 + 2 + 6 + 6,
      insertedTokens: 4,
      answerInQueryShare: 1 / 4,
      repeatedQueryShare: 1 / 4,
      searchFailures: 1,
      searchMilliseconds: 7,
      searchOutages: 2,
      searchPausedMilliseconds: 5,
    });
    const long = -(1 + 2 + 3 + 4 + 5 + 7) / 8;
    const short = -(1 + 3) / 8;
    expect(health.entropy).toBeCloseTo(-(3 * long + short) / 20, 12);
    expect(health.correctLogProb).toBeCloseTo(short / 2, 12);
  });

  test("over nothing there are no means", async () => {
    expect(await rolloutHealth([], SEARCHES)).toMatchObject({
      trajectories: 0,
      reward: null,
      entropy: null,
      searches: null,
      correctLogProb: null,
    });
    const foreign = [sampleOf({}, {}, ["observation"])];
    expect(await rolloutHealth(foreign, SEARCHES)).toMatchObject({ policyTokens: 0, entropy: null });
  });
});

test("judgeHealth counts failures, leaks and the share of failed trajectories that have a critique", async () => {
  const ok = (text: string) => sampleOf({}, { critique: { status: "ok", text } } as never);
  const samples = [
    ok("Search for the inventor."),
    ok("The answer is Ada."),
    sampleOf({}, { critique: { status: "refused", reason: "no" } } as never),
    sampleOf(),
    sampleOf({}, { failed: false, reward: 1 }),
  ];
  const statistics = { calls: 3, ok: 2, failures: { refused: 1 }, latencies: [10, 30, 20], milliseconds: 35 };
  expect(await judgeHealth(samples, statistics, 1)).toEqual({
    calls: 3,
    failures: { refused: 1 },
    failureShare: 1 / 3,
    critiqueShare: 0.5,
    leakShare: 0.5,
    latency: 20,
    latencyP95: 30,
    overBudget: 1,
  });
});

test("judgeHealth has what the judge itself counts", async () => {
  const total = { calls: 3 } as JudgeStats;
  const statistics = { calls: 0, ok: 0, failures: {}, latencies: [], milliseconds: 0 };
  expect(await judgeHealth([], statistics, 0, { stats: () => total })).toMatchObject({ total });
  expect(await judgeHealth([], statistics, 0, {})).not.toHaveProperty("total");
});

test("referenceHealth is the k3 estimate over policy tokens and over the scope", async () => {
  const sample = sampleOf({}, {}, ["think", "tag", "search", "tag", "observation"]);
  // Differences reference - student: 0.5, 0, -1, 0, and one that must not count.
  sample.referenceLogProbs = Float32Array.of(-0.125 + 0.5, -0.25, -0.375 - 1, -0.5, 77);
  const k3 = (d: number) => Math.exp(d) - d - 1;
  const { k3: all, k3Search } = await referenceHealth([sample, sampleOf()], "search");
  expect(all).toBeCloseTo((k3(0.5) + k3(-1)) / 4, 6);
  expect(k3Search).toBeCloseTo(k3(-1), 6);
  expect(await referenceHealth([sampleOf()], "search")).toEqual({ k3: null, k3Search: null });
});

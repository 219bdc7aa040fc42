import { describe, expect, test } from "vitest";
import type { Trajectory, TrajectoryStatus } from "../../lib/agent/trajectory.js";
import { Random } from "../../lib/data/random.js";
import type { JudgeInput } from "../../lib/judge/input.js";
import { Assessment, type AssessmentOptions } from "../../lib/training/assessment.js";
import { Critic, type CritiqueOptions } from "../../lib/training/critiques.js";
import { trajectoryOf } from "../support/trajectory.js";

const SEARCHED = ["think", "tag", "search", "tag", "observation", "think"] as const;
const wait = () => new Promise((done) => setImmediate(done));

/** A trajectory of a group; one that answers "right" has reward 1, others 0. */
function make(
  group: number,
  sample: number,
  answer: string | null,
  status: TrajectoryStatus = "answered",
  kinds: readonly (typeof SEARCHED)[number][] = SEARCHED,
): Trajectory {
  return trajectoryOf([...kinds], { id: `0-${group}-${sample}`, group, sample, answer, status });
}

/** A group of every kind: mixed, all fail, all pass, with a failed search, without searches. */
function rollout(): Trajectory[][] {
  return [
    [make(0, 0, "right"), make(0, 1, "0-1"), make(0, 2, "0-2")],
    [make(1, 0, "1-0"), make(1, 1, "1-1"), make(1, 2, "1-2")],
    [make(2, 0, "right"), make(2, 1, "right"), make(2, 2, "right")],
    [make(3, 0, "3-0", "search failed"), make(3, 1, "3-1"), make(3, 2, "right")],
    [make(4, 0, "right"), make(4, 1, "4-1", "answered", ["think"]), make(4, 2, "4-2")],
  ];
}

interface Setting extends Partial<Omit<AssessmentOptions, "critic">>, Partial<CritiqueOptions> {
  critique?: (input: JudgeInput, signal: AbortSignal | undefined) => unknown;
}

function assess({ critique, ...options }: Setting = {}) {
  const asked: (string | null)[] = [];
  const judge = {
    critique: async (input: JudgeInput, { signal }: { signal?: AbortSignal | undefined } = {}) => {
      asked.push(input.answer);
      return (await (critique?.(input, signal) ?? { status: "ok", text: `about ${input.answer}` })) as never;
    },
  };
  const critic = new Critic(judge, {
    scope: "failed",
    seesGold: true,
    deadline: 5_000,
    decode: String,
    ...options,
  });
  const assessment = new Assessment({
    score: ({ answer }) => ({ reward: answer === "right" ? 1 : 0, components: {} }),
    successThreshold: 0.5,
    advantage: {},
    groupSize: 3,
    critic,
    ...options,
  });
  return { assessment, critic, asked };
}

describe.each(["failed", "all", "all-fail-groups", "mixed-groups"] as const)("scope %s", (scope) => {
  const outcome = async (order: readonly number[], groups = rollout()) => {
    const slow = new Random(order.length);
    const { assessment, critic, asked } = assess({
      scope,
      score: async ({ answer }) => {
        for (let turns = slow.integer(3); turns > 0; turns--) await wait();
        return { reward: answer === "right" ? 1 : 0, components: { length: answer?.length ?? 0 } };
      },
      critique: async ({ answer }) => {
        for (let turns = slow.integer(3); turns > 0; turns--) await wait();
        if (answer === "1-1") throw new Error("out of order");
        return answer === "0-2" ? { status: "too-short", reason: "short" } : { status: "ok", text: answer };
      },
    });
    for (const i of order) {
      assessment.start(groups.flat()[i] as Trajectory);
      if (slow.integer(2) === 0) await wait();
    }
    const samples = await assessment.score(groups);
    const { calls, ok, failures, latencies } = await critic.collect(samples.flat());
    return { samples, calls, ok, failures, latencies: latencies.length, asked: [...asked].sort() };
  };

  test("whatever ends first, the same comes out as without a head start, and nobody is asked twice", async () => {
    const behind = await outcome([]);
    expect(behind.calls).toBe(behind.asked.length);
    for (let seed = 1; seed <= 8; seed++) {
      const order = new Random(seed).shuffle(Array.from({ length: 15 }, (_, i) => i));
      expect(await outcome(order)).toEqual(behind);
    }
    expect(await outcome([3, 4, 12])).toEqual(behind);
  });
});

describe("when the judge is asked", () => {
  test("about a failed trajectory: when it ends", async () => {
    const { assessment, asked } = assess();
    for (const trajectory of rollout().flat()) {
      const before = asked.length;
      assessment.start(trajectory);
      await wait();
      const { answer, status, searches } = trajectory;
      const judged = answer !== "right" && status !== "search failed" && searches.length > 0;
      expect(asked.slice(before)).toEqual(judged ? [answer] : []);
    }
  });

  test.each([
    ["all-fail-groups", ["1-0", "1-1", "1-2"]],
    ["mixed-groups", ["0-1", "0-2", "3-1", "4-2"]],
  ] as const)("%s: when the last one of the group ends", async (scope, all) => {
    const { assessment, asked } = assess({ scope });
    for (const group of rollout()) {
      for (const trajectory of group) {
        await wait();
        expect(asked.filter((answer) => answer?.startsWith(String(trajectory.group)))).toEqual([]);
        assessment.start(trajectory);
      }
    }
    await wait();
    expect(asked).toEqual(all);
  });
});

describe("failures in the middle", () => {
  test("a reward that throws ends the step with the next trajectory, and its own is not judged", async () => {
    const broken = new Error("no such scorer");
    const score = ({ answer }: Trajectory) => {
      if (answer === "0-1") throw broken;
      return { reward: 0, components: {} };
    };
    const { assessment, asked } = assess({ score });
    const groups = rollout();
    assessment.start(groups[0]?.[1] as Trajectory);
    await wait();
    expect(() => assessment.start(groups[0]?.[2] as Trajectory)).toThrow(broken);
    await expect(assessment.score(groups)).rejects.toBe(broken);
    expect(asked).toEqual([]);
  });

  test("a reward that is no number is named as it is without a head start", async () => {
    const score = ({ answer }: Trajectory) => ({ reward: answer === "0-2" ? Number.NaN : 0, components: {} });
    const [early, late] = [assess({ score }), assess({ score })];
    const groups = rollout();
    for (const trajectory of groups.flat()) early.assessment.start(trajectory);
    const message = await late.assessment.score(groups).catch(String);
    expect(message).toMatch(/sample 2 is NaN/);
    expect(await early.assessment.score(groups).catch(String)).toBe(message);
  });

  test("a reward that never answers ends with the signal", async () => {
    const controller = new AbortController();
    const { assessment } = assess({ score: () => new Promise(() => {}), signal: controller.signal });
    const scoring = assessment.score(rollout());
    controller.abort(new Error("enough"));
    await expect(scoring).rejects.toMatchObject({ code: "ABORTED", cause: { message: "enough" } });
  });

  test("the deadline counts from the end of the rollout, also for who was asked long before", async () => {
    let reply: (critique: object) => void = () => {};
    const critique = ({ answer }: JudgeInput) =>
      new Promise((resolve) => {
        if (answer === "0-0") reply = resolve;
      });
    const { assessment, critic } = assess({ critique, deadline: 40 });
    const groups = [[make(0, 0, "0-0"), make(0, 1, "0-1"), make(0, 2, "right")]];
    for (const trajectory of groups.flat()) assessment.start(trajectory);
    await new Promise((done) => setTimeout(done, 60));
    const [samples = []] = await assessment.score(groups);
    const collecting = critic.collect(samples);
    reply({ status: "ok", text: "Look here." });
    await collecting;
    expect(samples.map((sample) => sample.critique)).toEqual([
      { status: "ok", text: "Look here." },
      { status: "failed", reason: "no critique within 40 ms" },
      undefined,
    ]);
  });

  test("disposing of the critic ends its calls, and a reward that comes later asks nobody", async () => {
    const signals: (AbortSignal | undefined)[] = [];
    let reward: (result: { reward: number; components: object }) => void = () => {};
    const { assessment, critic, asked } = assess({
      score: ({ answer }) =>
        answer === "0-2"
          ? new Promise((resolve) => {
              reward = resolve as typeof reward;
            })
          : { reward: 0, components: {} },
      critique: (_, signal) => {
        signals.push(signal);
        return new Promise(() => {});
      },
    });
    for (const trajectory of rollout()[0] ?? []) assessment.start(trajectory);
    await wait();
    expect(signals.map((signal) => signal?.aborted)).toEqual([false, false]);
    critic[Symbol.dispose]();
    reward({ reward: 0, components: {} });
    await wait();
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, true]);
    expect(asked).toEqual(["right", "0-1"]);
  });
});

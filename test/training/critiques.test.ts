import { describe, expect, test } from "vitest";
import type { Critique } from "../../lib/judge/critique.js";
import type { Judge } from "../../lib/judge/judge.js";
import { critiqueSamples, inScope, judgeInput } from "../../lib/training/critiques.js";
import { hintsOf } from "../../lib/training/hints.js";
import { sampleOf } from "./samples.js";

const decode = (tokens: Int32Array) => `text of ${[...tokens].join(" ")}`;
const OPTIONS = { scope: "failed", seesGold: true, deadline: 5_000, decode } as const;
const judge = (critique: Judge["critique"]): Judge => ({ critique });
const question = (text: string) => ({ id: text, question: text, goldAnswers: ["Ada"] });

describe("scope", () => {
  const failed = sampleOf();
  const passed = sampleOf({}, { reward: 1, failed: false });
  const dead = sampleOf({}, { group: "all-fail" });
  const lost = sampleOf({ status: "search failed" }, { reward: null, advantage: null, failed: false });
  const idle = sampleOf({}, {}, ["think", "tag", "answer", "tag"]);
  test.each([
    ["failed", [true, false, true, false, false]],
    ["all-fail-groups", [false, false, true, false, false]],
    ["mixed-groups", [true, false, false, false, false]],
    ["all", [true, true, true, false, false]],
  ] as const)("%s", (scope, expected) => {
    expect([failed, passed, dead, lost, idle].map((sample) => inScope(sample, scope))).toEqual(expected);
  });
});

describe("what the judge reads", () => {
  test("question, searches with the reasoning before them, and the answer", () => {
    const passages = [{ id: "1", title: "T", text: "x" }];
    const { trajectory } = sampleOf({ answer: "Bob" }, {}, [
      "think",
      "tag",
      "search",
      "tag",
      "observation",
      "tag",
      "search",
      "tag",
      "observation",
      "think",
      "tag",
      "search",
      "tag",
    ]);
    (trajectory.searches[0] as { passages: unknown }).passages = passages;
    expect(judgeInput(trajectory, { seesGold: true, decode })).toEqual({
      question: "Who?",
      goldAnswers: ["Ada"],
      answer: "Bob",
      steps: [
        { query: "query at 2", passages, reasoning: "text of 100" },
        { query: "query at 6", passages: [] },
        { query: "query at 11", passages: [], reasoning: "text of 109" },
      ],
    });
  });

  test("a judge that may not see the gold answers does not", () => {
    expect(judgeInput(sampleOf().trajectory, { seesGold: false, decode }).goldAnswers).toBeNull();
  });
});

describe("critiqueSamples", () => {
  test("asks about the samples in scope and counts what comes back", async () => {
    const samples = [
      sampleOf(),
      sampleOf({}, { failed: false }),
      sampleOf({ answer: "x" }),
      sampleOf({ answer: "y" }),
    ];
    const asked: (string | null)[] = [];
    const statistics = await critiqueSamples(
      samples,
      judge(async ({ answer }) => {
        asked.push(answer);
        if (answer === "x") return { status: "too-short", reason: "3 characters" };
        if (answer === "y") throw new Error("out of order");
        return { status: "ok", text: "Search for the director." };
      }),
      OPTIONS,
    );
    expect(asked).toEqual([null, "x", "y"]);
    expect(samples.map(({ critique }) => critique?.status)).toEqual(["ok", undefined, "too-short", "failed"]);
    expect(samples[3]?.critique).toMatchObject({ reason: "Error: out of order" });
    expect(statistics).toMatchObject({ calls: 3, ok: 1, failures: { "too-short": 1, failed: 1 } });
    expect(statistics.latencies.length).toBe(3);
  });

  test("a judge that answers something else is a failed critique, never a crash or a hint", async () => {
    const garbage: unknown[] = [
      undefined,
      null,
      "text",
      { status: "ok" },
      { status: "ok", text: 5 },
      { status: "great", text: "x" },
      { status: "__proto__", reason: "x" },
      { status: "failed" },
      { status: "ok", text: "long ".repeat(2_000_000) },
    ];
    const samples = garbage.map((_, i) => sampleOf({ answer: String(i) }));
    const statistics = await critiqueSamples(
      samples,
      judge(async ({ answer }) => garbage[Number(answer)] as Critique),
      OPTIONS,
    );
    expect(statistics).toMatchObject({ calls: garbage.length, ok: 0, failures: { failed: garbage.length } });
    expect(hintsOf(samples, "real").size).toBe(0);
    expect(samples.map(({ critique }) => critique && "reason" in critique && critique.reason)).toEqual([
      ...Array(8).fill(expect.stringContaining("no critique")),
      expect.stringContaining("10000000 characters"),
    ]);
  });

  test("a judge that never answers fails at the deadline, the others keep their critique", async () => {
    const samples = [sampleOf(), sampleOf({ answer: "slow" })];
    await critiqueSamples(
      samples,
      judge(({ answer }) =>
        answer === "slow" ? new Promise(() => {}) : Promise.resolve({ status: "ok", text: "Search for it." }),
      ),
      { ...OPTIONS, deadline: 30 },
    );
    expect(samples.map(({ critique }) => critique)).toEqual([
      { status: "ok", text: "Search for it." },
      { status: "failed", reason: "no critique within 30 ms" },
    ]);
  });

  test("an abort is an abort", async () => {
    const controller = new AbortController();
    const judging = critiqueSamples(
      [sampleOf()],
      judge(() => new Promise(() => {})),
      {
        ...OPTIONS,
        signal: controller.signal,
      },
    );
    controller.abort();
    await expect(judging).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describe("hints", () => {
  const critiqued = (text: string, of: string) =>
    sampleOf({ question: question(of) }, { critique: { status: "ok", text } } as never);
  const samples = [
    critiqued("a1", "A"),
    critiqued("a2", "A"),
    critiqued("b1", "B"),
    critiqued("b2", "B"),
    sampleOf({}, { critique: { status: "failed", reason: "x" } } as never),
    sampleOf(),
  ];
  const texts = (control: Parameters<typeof hintsOf>[1]) =>
    samples.map((sample) => hintsOf(samples, control).get(sample));

  test("only samples with a critique get one", () => {
    expect(texts("real")).toEqual(["a1", "a2", "b1", "b2", undefined, undefined]);
    expect(texts("empty")).toEqual(["", "", "", "", undefined, undefined]);
  });

  test("shuffled ones are of another question, and none if there is no other", () => {
    expect(texts("shuffled")).toEqual(["b1", "b2", "a1", "a2", undefined, undefined]);
    const lopsided = [critiqued("a1", "A"), critiqued("a2", "A"), critiqued("a3", "A"), critiqued("b1", "B")];
    const hints = hintsOf(lopsided, "shuffled");
    expect(lopsided.slice(0, 3).map((sample) => hints.get(sample))).toEqual(["b1", "b1", "b1"]);
    expect(hints.get(lopsided[3] as (typeof lopsided)[0])).toMatch(/^a/);
    expect(hintsOf(lopsided.slice(0, 3), "shuffled").size).toBe(0);
  });
});

test.each([
  ["throws", () => Promise.reject(new Error(`no: Bearer abcdefghijkl ${"x".repeat(1e6)}`))],
  [
    "returns",
    async () => ({ status: "refused", reason: `no: Bearer abcdefghijkl ${"x".repeat(1e6)}` }) as const,
  ],
] as const)(
  "the reason that a judge %s is kept in one short line, without secrets",
  async (_how, critique) => {
    const sample = sampleOf();
    await critiqueSamples([sample], judge(critique), OPTIONS);
    const reason = sample.critique?.status === "ok" ? "" : (sample.critique?.reason ?? "");
    expect(reason).toMatch(/^(Error: )?no: Bearer \[redacted\] x+…$/);
    expect(reason.length).toBeLessThanOrEqual(501);
  },
);

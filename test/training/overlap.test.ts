import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { throwIfAborted } from "../../lib/abort.js";
import type { Judge } from "../../lib/judge/judge.js";
import { PolicyJudge } from "../../lib/judge/policy-judge.js";
import type { Decoder, Segment } from "../../lib/policy/decoder.js";
import { Policy } from "../../lib/policy/policy.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { byteTokenizerJson } from "../support/byte-tokenizer.js";
import { smallConfigs } from "../support/small-policy.js";
import { timeless } from "./timeless.js";

let warm: Policy;
beforeAll(async () => {
  warm = await warmPolicy();
  const create = warm.createDecoder.bind(warm);
  warm.createDecoder = async (options) => oneByOne(await create(options));
});
afterAll(() => warm.dispose());

/**
 * Reports one segment per turn of the event loop. The model is so small that all of them may have stopped when the first
 * one is collected, and when a trajectory ends would be a matter of luck.
 */
function oneByOne(decoder: Decoder): Decoder {
  const next = decoder.next.bind(decoder);
  const stopped: Segment[] = [];
  decoder.next = async (options = {}) => {
    await new Promise((done) => setImmediate(done));
    throwIfAborted(options.signal);
    if (stopped.length === 0) stopped.push(...(await next(options)));
    return stopped.splice(0, 1);
  };
  return decoder;
}

const unhandled: unknown[] = [];
const listen = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on("unhandledRejection", listen);
});
afterEach(async () => {
  await new Promise((done) => setImmediate(done));
  process.off("unhandledRejection", listen);
  expect(unhandled).toEqual([]);
});

/** 30 trajectories a step, all of which fail. */
const OPTIONS = {
  retriever: TINY_RETRIEVER,
  judge: TINY_JUDGE,
  questions: TINY_QUESTIONS,
  protocol: TINY_PROTOCOL,
  reward: { name: "none", score: () => ({ reward: 0, components: {} }) },
  steps: 1,
  questionsPerStep: 6,
  groupSize: 5,
  distillation: { weight: 0.5 },
  decoder: { cacheTokens: 8192, maxBatch: 4 },
  startupCheck: { trajectories: 0 },
  seed: 3,
} satisfies Omit<HindSearchOptions, "policy">;

async function train(options: Partial<HindSearchOptions>): Promise<TrainingStepResult[]> {
  const results: TrainingStepResult[] = [];
  const { learningRate = { kind: "constant", learningRate: 0 } as const } = options;
  // At learning rate 0 every run starts from the same weights.
  const trainer = new HindSearchTrainer({ ...OPTIONS, ...options, policy: warm, learningRate });
  for await (const result of trainer) results.push(result);
  return results;
}

/** Something that is waited for until it happens. */
function event() {
  let happen: () => void = () => {};
  const happened = new Promise<void>((resolve) => {
    happen = resolve;
  });
  return { happen, happened };
}

/** A retriever whose later half of searches waits for something; then it does as told, by default it answers. */
function waitingRetriever(something: Promise<void>, instead?: () => never): typeof TINY_RETRIEVER.search {
  let calls = 0;
  return async (...call) => {
    if (++calls > 15) {
      await something;
      instead?.();
    }
    return TINY_RETRIEVER.search(...call);
  };
}

/** A judge that answers after 100 ms. */
function slowJudge(events: string[], signals: AbortSignal[] = [], onAsked?: () => void): Judge {
  return {
    critique: async ({ question }, { signal } = {}) => {
      events.push("judge asked");
      onAsked?.();
      if (signal) signals.push(signal);
      await new Promise((done) => setTimeout(done, 100));
      events.push("judge answered");
      return { status: "ok", text: question.split(" ")[2] ?? "" };
    },
  };
}

test("a slow judge is asked before the rollout is over, and behind the check at the start of a run", async () => {
  for (const checked of [0, 8]) {
    const events: string[] = [];
    await train({
      judge: slowJudge(events),
      startupCheck: { trajectories: checked },
      onProgress: ({ done, total }) => events.push(done === total ? "rollout over" : "trajectory over"),
    });
    const asked = events.filter((event) => event === "judge asked").length;
    expect(asked).toBeGreaterThan(10);
    const [first, over] = [events.indexOf("judge asked"), events.indexOf("rollout over")];
    if (checked === 0) expect(first).toBeLessThan(over);
    else expect(first).toBeGreaterThan(over);
  }
});

describe("what comes out is what comes out of judging behind the rollout", () => {
  const outcome = async (options: Partial<HindSearchOptions>, checked: number) =>
    timeless(await train({ ...options, startupCheck: { trajectories: checked } }));

  test.each([
    { trajectoryScope: "failed" },
    { trajectoryScope: "all" },
    { trajectoryScope: "all-fail-groups" },
    { trajectoryScope: "mixed-groups" },
    { hintControl: "shuffled" },
    { hintControl: "empty" },
  ] as const)("%j", async (distillation) => {
    const reward = {
      name: "slow",
      score: async ({ answer }: { answer: string | null }) => {
        await new Promise((done) => setTimeout(done, (answer ?? "").length));
        return { reward: Number(answer === "red"), components: {} };
      },
    };
    const judge = {
      critique: async (...[{ question, steps }]: Parameters<Judge["critique"]>) => {
        await new Promise((done) => setTimeout(done, steps.length * 5));
        const entity = question.split(" ")[2] ?? "";
        if (steps.some(({ query }) => query.trim() !== entity)) throw new Error("out of order");
        return { status: "ok", text: entity } as const;
      },
    };
    const options = { reward, judge, distillation: { weight: 0.5, ...distillation } };
    const early = await outcome(options, 0);
    expect(early).toEqual(await outcome(options, 30));
    expect(early).toMatchObject([{ metrics: { judge: { failures: { failed: expect.any(Number) } } } }]);
  });

  test("a local model that judges while the policy decodes", async () => {
    using model = await Policy.initialize({
      config: { ...smallConfigs.qwen2, vocab_size: 257, max_position_embeddings: 4096 },
      tokenizer: { json: byteTokenizerJson(["<|end|>"]), config: { eos_token: "<|end|>" } },
      seed: 7,
      standardDeviation: 0.2,
      compute: "f32",
    });
    using frozen = await model.snapshot();
    const judge = () =>
      new PolicyJudge({
        policy: frozen,
        chat: false,
        temperature: 1,
        maxTokens: 8,
        decoder: { maxBatch: 2 },
      });
    const { happen, happened } = event();
    const first = judge();
    const critique: Judge["critique"] = async (...call) => {
      const said = await first.critique(...call);
      happen();
      return said;
    };
    // The rollout cannot end before the first critique is there.
    const retriever = { search: waitingRetriever(happened) };
    const early = await outcome({ judge: { critique }, retriever }, 0);
    // Without the judge's own statistics, which hold times.
    const second = judge();
    const late: Judge = { critique: (...call) => second.critique(...call) };
    expect(early).toEqual(await outcome({ judge: late }, 30));
  });
});

describe("in the middle of the rollout", () => {
  /** The error of a run that ends with judge calls under way; all of them must have been ended. */
  const stopped = async (options: Partial<HindSearchOptions>, onAsked?: () => void) => {
    const events: string[] = [];
    const signals: AbortSignal[] = [];
    const error = await train({ judge: slowJudge(events, signals, onAsked), ...options }).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    const asked = events.filter((event) => event === "judge asked").length;
    expect(asked).toBeGreaterThan(0);
    expect(signals.map(({ aborted }) => aborted)).toEqual(Array(asked).fill(true));
    await new Promise((done) => setTimeout(done, 150));
    expect(events.filter((event) => event === "judge asked").length, "asked behind the end").toBe(asked);
    return error;
  };

  test("an abort ends the judge's calls", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const onProgress = ({ done }: { done: number }) => {
      if (done === 12) controller.abort(reason);
    };
    expect(await stopped({ signal: controller.signal, onProgress })).toMatchObject({
      code: "ABORTED",
      cause: reason,
    });
  });

  test("a reward that throws ends rollout and judging with its error", async () => {
    const broken = new Error("no such scorer");
    let scored = 0;
    let done = 0;
    const score = () => {
      if (++scored === 12) throw broken;
      return { reward: 0, components: {} };
    };
    const onProgress = (progress: { done: number }) => {
      done = progress.done;
    };
    expect(await stopped({ reward: { name: "broken", score }, onProgress })).toBe(broken);
    expect(done).toBeLessThan(30);
  });

  test("an outage of the search service ends the judge's calls", async () => {
    const { happen, happened } = event();
    const search = waitingRetriever(happened, () => {
      throw new Error("no route to host");
    });
    expect(await stopped({ retriever: { search }, search: { outage: "fail" } }, happen)).toMatchObject({
      code: "RETRIEVAL_FAILED",
    });
  });

  test("a judge that always fails, at once or late, ends nothing", async () => {
    for (const critique of [
      () => {
        throw new Error("at once");
      },
      async () => {
        await new Promise((done) => setTimeout(done, 1));
        throw new Error("late");
      },
    ]) {
      const [{ metrics } = { metrics: undefined }] = await train({ judge: { critique } });
      expect(metrics?.judge?.calls).toBeGreaterThan(10);
      expect(metrics?.judge?.failures).toEqual({ failed: metrics?.judge?.calls });
    }
  });
});

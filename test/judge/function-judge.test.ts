import { describe, expect, test } from "vitest";
import { aiSdkJudge } from "../../examples/ai-sdk-judge.js";
import { JudgeEnsemble } from "../../lib/judge/ensemble.js";
import { type ChatTurn, FunctionJudge, type FunctionJudgeOptions } from "../../lib/judge/function-judge.js";
import type { Judge } from "../../lib/judge/judge.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { INPUT, TEXT } from "./chat-service.js";

const mark = (messages: readonly ChatTurn[], text: string) => {
  const [, nonce] = messages.at(-1)?.content.match(/\[\[critique ([0-9a-f]{6})\]\]/) ?? [];
  return `[[critique ${nonce}]]${text}[[end ${nonce}]]`;
};
const judgeOf = (complete: FunctionJudgeOptions["complete"], options: Partial<FunctionJudgeOptions> = {}) =>
  new FunctionJudge({ complete, tokenizer: byteTokenizer(), ...options });

describe("FunctionJudge", () => {
  test("asks in the form of chat SDKs", async () => {
    const seen: unknown[] = [];
    const judge = judgeOf(
      async (messages, options) => {
        seen.push(
          messages.map(({ role }) => role),
          options,
        );
        return mark(messages, TEXT);
      },
      { temperature: 0.3, maxTokens: 99 },
    );
    expect(await judge.critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    expect(seen).toEqual([
      ["system", "user"],
      { signal: expect.any(AbortSignal), maxTokens: 99, temperature: 0.3 },
    ]);
    expect(judge.stats()).toMatchObject({ calls: 1, ok: 1, usage: { requests: 1, estimated: 1 } });
  });

  test("takes replies with finish and usage", async () => {
    const usage = { promptTokens: 10, completionTokens: 5 };
    const judge = judgeOf(async () => ({ text: "", finish: "refused", usage }));
    expect(await judge.critique(INPUT)).toMatchObject({ status: "refused" });
    expect(judge.stats().usage).toMatchObject({ promptTokens: 10, completionTokens: 5, estimated: 0 });
  });

  test.each<[string, () => unknown, RegExp]>([
    [
      "throws",
      () => {
        throw new Error("quota of key sk-abcdefghijklmnop is used up");
      },
      /quota of key \[redacted\]/,
    ],
    ["rejects", () => Promise.reject(new Error("offline")), /offline/],
    ["returns nothing", async () => undefined, /neither a text nor/],
    ["returns something else", async () => ({ text: 3 }), /neither a text nor/],
  ])("a function that %s is a failed critique", async (_name, complete, reason) => {
    const judge = judgeOf(complete as never);
    expect(await judge.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(reason),
    });
    expect(judge.stats().failures.failed).toBe(1);
  });

  test("one that never answers ends at the deadline, or with the signal", async () => {
    const judge = judgeOf(() => new Promise(() => undefined), { deadlineMs: 50 });
    expect(await judge.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: "no critique within 50 ms",
    });
    const stop = new AbortController();
    const call = judgeOf(() => new Promise(() => undefined)).critique(INPUT, { signal: stop.signal });
    stop.abort();
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("examples go before the attempt", async () => {
    let roles: string[] = [];
    const judge = judgeOf(
      async (messages) => {
        roles = messages.map(({ role }) => role);
        return mark(messages, TEXT);
      },
      { examples: [{ input: INPUT, critique: "Search the director first." }] },
    );
    expect(await judge.critique({ ...INPUT, answer: "Paris" })).toMatchObject({ status: "ok" });
    expect(roles).toEqual(["system", "user", "assistant", "user"]);
  });
});

test("the example for the AI SDK asks and counts as the SDK does", async () => {
  const calls: object[] = [];
  const judge = aiSdkJudge(
    async (call) => {
      calls.push(call);
      const text = calls.length === 1 ? mark(call.messages, TEXT) : "";
      const finishReason = ["stop", "content-filter", "length", "length"][calls.length - 1] as string;
      return { text, finishReason, usage: { inputTokens: 100, outputTokens: 20 } };
    },
    "a-model",
    byteTokenizer(),
    { maxTokens: 64 },
  );
  expect(await judge.critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
  expect(await judge.critique(INPUT)).toMatchObject({ status: "refused" });
  expect(await judge.critique(INPUT)).toMatchObject({ status: "truncated" });
  expect(calls[0]).toMatchObject({
    model: "a-model",
    maxOutputTokens: 64,
    abortSignal: expect.any(AbortSignal),
  });
  expect(judge.stats().usage).toMatchObject({
    requests: 4,
    promptTokens: 400,
    completionTokens: 80,
    estimated: 0,
  });
});

describe("JudgeEnsemble", () => {
  const ok: Judge = { critique: async () => ({ status: "ok", text: TEXT }) };
  const failing: Judge = { critique: async () => ({ status: "refused", reason: "no" }) };
  const throwing: Judge = { critique: () => Promise.reject(new Error("broken")) };

  test("asks the next judge where one gives no critique", async () => {
    const ensemble = new JudgeEnsemble([failing, throwing, ok, ok]);
    expect(await ensemble.critique(INPUT)).toEqual({ status: "ok", text: TEXT });
    expect(ensemble.memberStats()).toEqual([
      { asked: 1, ok: 0 },
      { asked: 1, ok: 0 },
      { asked: 1, ok: 1 },
      { asked: 0, ok: 0 },
    ]);
    expect(ensemble.stats()).toMatchObject({ calls: 1, ok: 1 });
  });

  test("fails as the first judge does if none gives one", async () => {
    expect(await new JudgeEnsemble([failing, throwing]).critique(INPUT)).toEqual({
      status: "refused",
      reason: "judge 1: refused, no; judge 2: failed, broken",
    });
  });

  test("adds up what its members used", async () => {
    const member = () =>
      judgeOf(
        async (messages) => ({
          text: mark(messages, "Search in Cincinnati."),
          finish: "stop",
          usage: { promptTokens: 10, completionTokens: 5 },
        }),
        { leak: "drop", prices: { prompt: 1e6, completion: 0 } },
      );
    const ensemble = new JudgeEnsemble([member(), member(), ok]);
    expect(await ensemble.critique(INPUT)).toMatchObject({ status: "ok" });
    expect(ensemble.stats()).toMatchObject({
      calls: 1,
      usage: { requests: 2, promptTokens: 20, money: 20 },
      leaks: { drop: { checked: 2, leaked: 2, rate: 1 } },
    });
  });

  test("an abort is not a failure", async () => {
    const stop = new AbortController();
    const aborting: Judge = {
      critique: async () => {
        stop.abort();
        throw new Error("x");
      },
    };
    const call = new JudgeEnsemble([aborting, ok]).critique(INPUT, { signal: stop.signal });
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("without judges is refused", () => {
    expect(() => new JudgeEnsemble([])).toThrow(/at least one/);
  });
});

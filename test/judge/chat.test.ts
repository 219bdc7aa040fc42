import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { ChatJudge, type ChatJudgeOptions } from "../../lib/judge/chat.js";
import type { JudgeInput } from "../../lib/judge/input.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Handler, type ReceivedRequest, sendJson } from "../support/loopback-server.js";
import { first, hang, slow, status } from "../support/misbehaviour.js";
import { chatService, completion, correct, INPUT, KEY, marked, says, TEXT } from "./chat-service.js";

const service = chatService();
const { judge } = service;

describe("a good reply", () => {
  test("is a critique, and was asked for as documented", async () => {
    const critique = await judge(correct).critique(INPUT);
    expect(critique).toMatchObject({ status: "ok", text: TEXT, raw: expect.stringContaining(TEXT) });
    const [request] = service.server.requests;
    expect(request).toMatchObject({
      method: "POST",
      path: "/v1/chat/completions",
      headers: { authorization: `Bearer ${KEY}` },
      body: { model: "judge-model", temperature: 0, max_tokens: 256 },
    });
    expect(Object.keys(request?.body).sort()).toEqual(["max_tokens", "messages", "model", "temperature"]);
    expect(request?.body.messages.map(({ role }: { role: string }) => role)).toEqual(["system", "user"]);
    expect(request?.body.messages[1].content).toContain("Cincinnati");
  });

  test("with other request fields", async () => {
    await judge(correct, {
      temperature: 0.5,
      maxTokens: 99,
      maxTokensField: "max_completion_tokens",
      request: { temperature: undefined, chat_template_kwargs: { enable_thinking: false } },
    }).critique(INPUT);
    const { messages, ...fields } = (service.server.requests[0] as ReceivedRequest).body;
    expect(fields).toEqual({
      model: "judge-model",
      max_completion_tokens: 99,
      chat_template_kwargs: { enable_thinking: false },
    });
  });

  test("at an address with a query, which stays behind the path", async () => {
    await judge(correct, { baseURL: `${service.server.origin}/v1?api-version=7&x=a%2Fb` }).critique(INPUT);
    expect(service.server.requests[0]?.path).toBe("/v1/chat/completions?api-version=7&x=a%2Fb");
  });

  test("without gold answers in the request", async () => {
    await judge(correct).critique({ ...INPUT, goldAnswers: null });
    expect(JSON.stringify(service.server.requests[0]?.body)).not.toContain("Cincinnati");
  });

  test("compressed", async () => {
    const critique = await judge((request, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
      response.end(gzipSync(JSON.stringify(completion(marked(request, TEXT)))));
    }).critique(INPUT);
    expect(critique).toMatchObject({ status: "ok", text: TEXT });
  });

  test("has control tokens and tags taken out", async () => {
    const critique = await judge(says("Search <search>Jaws</search><|im_end|> (film).")).critique(INPUT);
    expect(critique).toMatchObject({ text: "Search Jaws (film)." });
  });

  test("the same trajectory is asked for in the same words", async () => {
    const repeated = judge(correct);
    await repeated.critique(INPUT);
    await repeated.critique(structuredClone(INPUT));
    expect(service.server.requests[0]?.body).toEqual(service.server.requests[1]?.body);
  });
});

describe("replies that are no critique are values", () => {
  test.each<[string, unknown, string]>([
    ["unmarked words", completion("Search the director."), "unparsable"],
    ["empty content", completion(""), "empty"],
    ["a tool call", completion(null, "tool_calls"), "empty"],
    ["a refusal", completion(null, "stop", { refusal: "I can't help with that." }), "refused"],
    ["a content filter", completion("", "content_filter"), "refused"],
    ["a refusal in words", completion("I'm sorry, but I cannot assist with that."), "refused"],
  ])("%s", async (_name, reply, expected) => {
    const asked = judge((_request, response) => sendJson(response, reply));
    expect(await asked.critique(INPUT)).toMatchObject({ status: expected, reason: expect.any(String) });
    expect(service.server.requests).toHaveLength(1);
    expect(asked.stats()).toMatchObject({ calls: 1, ok: 0, failures: { [expected]: 1 } });
  });

  test("a spent budget is asked for once more with four times of it", async () => {
    const thinking = first(1, (_request, response) => sendJson(response, completion("", "length")), correct);
    expect(await judge(thinking).critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    expect(service.server.requests.map(({ body }) => body.max_tokens)).toEqual([256, 1024]);
  });

  test("a budget spent twice is truncated", async () => {
    const thinking: Handler = (_request, response) => sendJson(response, completion(null, "length"));
    expect(await judge(thinking).critique(INPUT)).toMatchObject({ status: "truncated" });
    expect(service.server.requests).toHaveLength(2);
  });

  test("a leak is counted, redacted or dropped", async () => {
    const leaking = says("Search for hospitals in Cincinnati first.");
    const keep = judge(leaking);
    expect(await keep.critique(INPUT)).toMatchObject({ text: "Search for hospitals in Cincinnati first." });
    expect(keep.stats().leaks).toEqual({ keep: { checked: 1, leaked: 1, rate: 1, leakedAgain: 0 } });
    const redact = judge(leaking, { leak: "redact" });
    expect(await redact.critique(INPUT)).toMatchObject({ text: "Search for hospitals in the answer first." });
    const drop = judge(leaking, { leak: "drop" });
    expect(await drop.critique(INPUT)).toMatchObject({ status: "leaked" });
    expect(drop.stats()).toMatchObject({ failures: { leaked: 1 }, leaks: { drop: { rate: 1 } } });
  });
});

describe("limits", () => {
  test("the deadline ends a call as a value, whatever it is doing", async () => {
    for (const handler of [hang, status(503, { "retry-after": "60" })]) {
      const slow = judge(handler, { deadlineMs: 150 });
      const start = performance.now();
      expect(await slow.critique(INPUT)).toEqual({ status: "failed", reason: "no critique within 150 ms" });
      expect(performance.now() - start).toBeLessThan(1500);
    }
  });

  test("no more calls at a time than allowed, and waiting does not count towards the deadline", async () => {
    const busy = judge(slow(40, correct), { concurrency: 3, deadlineMs: 400 });
    const inputs = Array.from({ length: 60 }, (_, i) => ({ ...INPUT, answer: `answer ${i}` }));
    const start = performance.now();
    const critiques = await Promise.all(inputs.map((input) => busy.critique(input)));
    expect(performance.now() - start).toBeGreaterThan(400);
    expect(critiques.map(({ status }) => status)).toEqual(Array(60).fill("ok"));
    expect(service.server.peak).toBe(3);
    expect(busy.stats()).toMatchObject({ calls: 60, ok: 60, latency: { count: 60 } });
    expect(busy.stats().latency.max).toBeLessThan(400);
  });

  test("a server that is down is left alone, and asked again when it may be back", async () => {
    const breaking = judge(status(500), {
      breakerFailures: 5,
      breakerOpenMs: 300,
      concurrency: 8,
      retries: 8,
    });
    const inputs = Array.from({ length: 20 }, (_, i) => ({ ...INPUT, answer: `answer ${i}` }));
    const critiques = Promise.all(inputs.map((input) => breaking.critique(input)));
    await new Promise((done) => setTimeout(done, 250));
    // Five failures open the circuit; the calls already under way may still fail.
    expect(service.server.requests.length).toBeLessThanOrEqual(5 + 8);
    service.server.handler = correct;
    expect((await critiques).map(({ status }) => status)).toEqual(Array(20).fill("ok"));
  });

  test("a busy server does not count as down", async () => {
    const busy = judge(first(12, status(429, { "retry-after": "0.001" }), correct), {
      breakerFailures: 2,
      breakerOpenMs: 60_000,
      retries: 20,
    });
    expect(await busy.critique(INPUT)).toMatchObject({ status: "ok" });
  });
});

describe("abort", () => {
  test("rejects at once and ends the request", async () => {
    const controller = new AbortController();
    const asked = judge(hang, { concurrency: 1 });
    const calls = [INPUT, { ...INPUT, answer: "b" }].map((input) =>
      asked.critique(input, { signal: controller.signal }),
    );
    const outcomes = Promise.allSettled(calls);
    await expect.poll(() => service.server.inFlight).toBe(1);
    controller.abort(new Error("stop"));
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: "rejected",
        reason: { code: "ABORTED", cause: { message: "stop" } },
      });
    }
    await expect.poll(() => service.server.inFlight).toBe(0);
    expect(service.server.requests).toHaveLength(1);
    expect(asked.stats().calls).toBe(0);
    service.server.handler = correct;
    expect(await asked.critique(INPUT)).toMatchObject({ status: "ok" });
  });

  test("says nothing about the server, neither that it is gone nor that it is there", async () => {
    const asked = judge(hang, { breakerFailures: 2, breakerOpenMs: 60_000, retries: 0 });
    const controllers = [1, 2, 3].map(() => new AbortController());
    const aborted = controllers.map(({ signal }, i) =>
      asked.critique({ ...INPUT, answer: `${i}` }, { signal }),
    );
    const outcomes = Promise.allSettled(aborted);
    await expect.poll(() => service.server.inFlight).toBe(3);
    for (const controller of controllers.splice(0, 2)) controller.abort();
    await Promise.allSettled(aborted.slice(0, 2));
    // Not gone: the next one is sent.
    service.server.handler = status(500);
    expect(await asked.critique(INPUT)).toMatchObject({ status: "failed", reason: /status 500/ as never });
    controllers[0]?.abort();
    await outcomes;
    // Not there: the failure before it still counts, and this one is the second.
    expect(await asked.critique(INPUT)).toMatchObject({ status: "failed" });
    const sent = service.server.requests.length;
    service.server.handler = correct;
    expect(await asked.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: /nothing is sent/ as never,
    });
    expect(service.server.requests).toHaveLength(sent);
  });

  test("before the call", async () => {
    const call = judge(correct).critique(INPUT, { signal: AbortSignal.abort() });
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    expect(service.server.requests).toHaveLength(0);
  });
});

describe("arguments", () => {
  test.each<[string, Record<string, unknown>]>([
    ["baseURL", { baseURL: "ftp://x" }],
    ["baseURL", { baseURL: "http://me:pass1234@127.0.0.1/v1" }],
    ["model", { model: "" }],
    ["tokenizer", { tokenizer: {} }],
    ["temperature", { temperature: 3 }],
    ["leak", { leak: "hide" }],
    ["maxTokens", { maxTokens: 0 }],
    ["maxTokenz", { maxTokenz: 1 }],
    ["request", { request: { n: 8 } }],
    ["request", { request: { max_tokens: 100_000 } }],
    ["request", { request: { max_completion_tokens: undefined } }],
    ["request", { request: { messages: [] } }],
    ["request", { request: { stream: true } }],
  ])("wrong %s is refused by name", (name, options) => {
    const valid = { baseURL: "http://127.0.0.1/v1", model: "m", tokenizer: byteTokenizer() };
    expect(() => new ChatJudge({ ...valid, ...options } as ChatJudgeOptions)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(name) }),
    );
    expect(() => new ChatJudge({ ...valid, ...options } as ChatJudgeOptions)).not.toThrow(/pass1234/);
  });

  test.each([
    ["question", { ...INPUT, question: 3 }],
    ["goldAnswers", { ...INPUT, goldAnswers: undefined }],
    ["steps.0.query", { ...INPUT, steps: [{ passages: [] }] }],
    ["it", null],
  ])("an input with a wrong %s is refused", async (where, input) => {
    await expect(judge(correct).critique(input as unknown as JudgeInput)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(where),
    });
  });
});

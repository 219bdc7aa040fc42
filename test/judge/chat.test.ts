import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ChatJudge, type ChatJudgeOptions } from "../../lib/judge/chat.js";
import { withoutGold } from "../../lib/judge/controls.js";
import type { JudgeInput } from "../../lib/judge/judge.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Handler, LoopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";

const KEY = "canary-key-9d41f7";
const INPUT: JudgeInput = {
  question: "Where was the director of Jaws born?",
  goldAnswers: ["Cincinnati"],
  steps: [{ query: "Jaws", passages: [{ id: "1", title: "Jaw", text: "A bone." }] }],
  answer: "London",
};
const TEXT = "Search who directed the 1975 film Jaws, then that director's birthplace.";

vi.setConfig({ testTimeout: 10_000 });

let server: LoopbackServer;
beforeEach(async () => {
  server = await LoopbackServer.start(correct);
});
afterEach(() => server[Symbol.asyncDispose]());

function judge(handler: Handler, options: Partial<ChatJudgeOptions> = {}): ChatJudge {
  server.handler = handler;
  return new ChatJudge({
    baseURL: `${server.origin}/v1`,
    model: "judge-model",
    tokenizer: byteTokenizer(),
    apiKey: KEY,
    baseDelayMs: 5,
    maxDelayMs: 20,
    breakerFailures: 1000,
    ...options,
  });
}

/** What the prompt asks to put around the critique. */
function marked({ body }: ReceivedRequest, text: string): string {
  const [, nonce] = body.messages[1].content.match(/\[\[critique ([0-9a-f]{6})\]\]/);
  return `[[critique ${nonce}]]${text}[[end ${nonce}]]`;
}
const completion = (content: string | null, finish = "stop", message = {}) => ({
  id: "x",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content, ...message }, finish_reason: finish }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const says =
  (text: string): Handler =>
  (request, response) =>
    sendJson(response, completion(marked(request, text)));
const correct = says(TEXT);
const first =
  (times: number, misbehave: Handler): Handler =>
  (request, response, index) =>
    (index < times ? misbehave : correct)(request, response, index);
const status =
  (code: number, headers = {}, body = ""): Handler =>
  (_request, response) =>
    void response.writeHead(code, headers).end(body);
const hang: Handler = () => {};

describe("a good reply", () => {
  test("is a critique, and was asked for as documented", async () => {
    const critique = await judge(correct).critique(INPUT);
    expect(critique).toMatchObject({ status: "ok", text: TEXT, raw: expect.stringContaining(TEXT) });
    const [request] = server.requests;
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
    const { messages, ...fields } = (server.requests[0] as ReceivedRequest).body;
    expect(fields).toEqual({
      model: "judge-model",
      max_completion_tokens: 99,
      chat_template_kwargs: { enable_thinking: false },
    });
  });

  test("without gold answers in the request", async () => {
    await withoutGold(judge(correct)).critique(INPUT);
    expect(JSON.stringify(server.requests[0]?.body)).not.toContain("Cincinnati");
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
    expect(server.requests[0]?.body).toEqual(server.requests[1]?.body);
  });
});

describe("replies that are no critique are values", () => {
  test.each<[string, unknown, string]>([
    ["unmarked words", completion("Search the director."), "unparsable"],
    ["empty content", completion(""), "unparsable"],
    ["a tool call", completion(null, "tool_calls"), "unparsable"],
    ["a refusal", completion(null, "stop", { refusal: "I can't help with that." }), "refused"],
    ["a content filter", completion("", "content_filter"), "refused"],
    ["a refusal in words", completion("I'm sorry, but I cannot assist with that."), "refused"],
  ])("%s", async (_name, reply, expected) => {
    const asked = judge((_request, response) => sendJson(response, reply));
    expect(await asked.critique(INPUT)).toMatchObject({ status: expected, reason: expect.any(String) });
    expect(server.requests).toHaveLength(1);
    expect(asked.stats()).toMatchObject({ calls: 1, ok: 0, failures: { [expected]: 1 } });
  });

  test("a spent budget is asked for once more with four times of it", async () => {
    const thinking = first(1, (_request, response) => sendJson(response, completion("", "length")));
    expect(await judge(thinking).critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    expect(server.requests.map(({ body }) => body.max_tokens)).toEqual([256, 1024]);
  });

  test("a budget spent twice is truncated", async () => {
    const thinking: Handler = (_request, response) => sendJson(response, completion(null, "length"));
    expect(await judge(thinking).critique(INPUT)).toMatchObject({ status: "truncated" });
    expect(server.requests).toHaveLength(2);
  });

  test("a leak is counted, redacted or dropped", async () => {
    const leaking = says("Search for hospitals in Cincinnati first.");
    const off = judge(leaking);
    expect(await off.critique(INPUT)).toMatchObject({ text: "Search for hospitals in Cincinnati first." });
    expect(off.stats().leaks).toEqual({ checked: 1, leaked: 1, rate: 1 });
    const redact = judge(leaking, { leak: "redact" });
    expect(await redact.critique(INPUT)).toMatchObject({ text: "Search for hospitals in the answer first." });
    const drop = judge(leaking, { leak: "drop" });
    expect(await drop.critique(INPUT)).toMatchObject({ status: "leaked" });
    expect(drop.stats()).toMatchObject({ failures: { leaked: 1 }, leaks: { rate: 1 } });
  });
});

describe("what may pass is repeated", () => {
  test.each([408, 409, 429, 500, 502, 503])("status %d", async (code) => {
    expect(await judge(first(2, status(code))).critique(INPUT)).toMatchObject({ status: "ok" });
    expect(server.requests).toHaveLength(3);
  });

  test.each<[string, Handler]>([
    ["an HTML page with status 200", status(200, { "content-type": "text/html" }, "<html>hello</html>")],
    ["broken JSON", status(200, { "content-type": "application/json" }, '{"choices": [{"mess')],
    ["an empty body", status(200, { "content-type": "application/json" })],
    [
      "JSON that is no completion",
      (_request, response) => sendJson(response, { error: { message: "loading" } }),
    ],
    ["no choices", (_request, response) => sendJson(response, { choices: [] })],
    [
      "content that is no text",
      (_request, response) => sendJson(response, completion([{ type: "text" }] as never)),
    ],
    ["a dropped connection", (_request, response) => void response.socket?.destroy()],
    [
      "an answer that breaks off",
      (_request, response) => {
        response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
        response.write('{"choices"');
        setTimeout(() => response.socket?.destroy(), 5);
      },
    ],
  ])("%s", async (_name, misbehave) => {
    expect(await judge(first(1, misbehave)).critique(INPUT)).toMatchObject({ status: "ok" });
    expect(server.requests).toHaveLength(2);
  });

  test("a server that never answers, and one whose body never ends", async () => {
    const trickle: Handler = (_request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const timer = setInterval(() => response.write(" "), 10);
      response.once("close", () => clearInterval(timer));
    };
    const patient = judge(
      (request, response, index) => ([hang, trickle][index] ?? correct)(request, response, index),
      {
        timeoutMs: 150,
      },
    );
    expect(await patient.critique(INPUT)).toMatchObject({ status: "ok" });
    expect(server.requests).toHaveLength(3);
    await expect.poll(() => server.inFlight).toBe(0);
  });

  test("Retry-After is waited, by other calls too", async () => {
    const busy = judge(first(1, status(429, { "retry-after": "0.3" })));
    const start = performance.now();
    const one = busy.critique(INPUT);
    await expect.poll(() => server.requests.length).toBe(1);
    await new Promise((done) => setTimeout(done, 30));
    await Promise.all([one, busy.critique({ ...INPUT, answer: "other" })]);
    expect(performance.now() - start).toBeGreaterThanOrEqual(299);
    expect(server.requests).toHaveLength(3);
    for (const { at } of server.requests.slice(1))
      expect(at - (server.requests[0]?.at ?? 0)).toBeGreaterThanOrEqual(299);
  });

  test("until the retries are used up; then it is a value and nothing is thrown", async () => {
    const dead = judge(status(500, {}, "boom"), { retries: 2 });
    expect(await dead.critique(INPUT)).toEqual({
      status: "failed",
      reason: 'status 500: "boom" (3 attempts)',
    });
    expect(server.requests).toHaveLength(3);
    expect(dead.stats()).toMatchObject({ calls: 1, ok: 0, failures: { failed: 1 }, latency: { count: 1 } });
  });

  test("nobody listens", async () => {
    const gone = judge(correct, { retries: 1 });
    await server[Symbol.asyncDispose]();
    expect(await gone.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(/connection failed: .*ECONNREFUSED.*\(2 attempts\)/),
    });
    server = await LoopbackServer.start(correct);
  });
});

describe("what cannot pass is not repeated", () => {
  test.each([400, 401, 403, 404, 422])("status %d", async (code) => {
    const refused = judge(
      status(code, { "content-type": "application/json" }, '{"error": {"message": "no such model"}}'),
    );
    expect(await refused.critique(INPUT)).toEqual({
      status: "failed",
      reason: `status ${code}: "no such model"`,
    });
    expect(server.requests).toHaveLength(1);
  });

  test("a redirect to another server: neither key nor prompt go there", async () => {
    await using other = await LoopbackServer.start(correct);
    const moved = judge(status(307, { location: `${other.origin}/v1/chat/completions` }));
    expect(await moved.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("redirect"),
    });
    expect(other.requests).toHaveLength(0);
    expect(server.requests).toHaveLength(1);
  });

  test.each<[string, Handler]>([
    [
      "a flood",
      (_request, response) => {
        response.writeHead(200, { "content-type": "application/json" });
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536, 32)));
        };
        response.on("drain", more);
        more();
      },
    ],
    [
      "a decompression bomb",
      (_request, response) => {
        response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
        response.end(gzipSync(Buffer.alloc(64 * 2 ** 20, 32)));
      },
    ],
  ])("%s", async (_name, handler) => {
    expect(await judge(handler).critique(INPUT)).toEqual({
      status: "failed",
      reason: "the answer has more than maxResponseBytes (1048576) bytes",
    });
    expect(server.requests).toHaveLength(1);
  });

  test("a wait longer than allowed", async () => {
    const far = judge(status(429, { "retry-after": "90" }), { maxRetryAfterMs: 60_000 });
    expect(await far.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("the server asks to wait 90 s, longer than maxRetryAfterMs (60 s)"),
    });
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
    const slow = judge(
      (request, response, index) => void setTimeout(() => correct(request, response, index), 40),
      {
        concurrency: 3,
        deadlineMs: 2000,
      },
    );
    const inputs = Array.from({ length: 30 }, (_, i) => ({ ...INPUT, answer: `answer ${i}` }));
    const critiques = await Promise.all(inputs.map((input) => slow.critique(input)));
    expect(critiques.every(({ status }) => status === "ok")).toBe(true);
    expect(server.peak).toBe(3);
    expect(slow.stats()).toMatchObject({ calls: 30, ok: 30, latency: { count: 30 } });
    expect(slow.stats().latency.max).toBeLessThan(1000);
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
    expect(server.requests.length).toBeLessThanOrEqual(5 + 8);
    server.handler = correct;
    expect((await critiques).map(({ status }) => status)).toEqual(Array(20).fill("ok"));
  });

  test("a busy server does not count as down", async () => {
    const busy = judge(first(12, status(429, { "retry-after": "0.001" })), {
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
    await expect.poll(() => server.inFlight).toBe(1);
    controller.abort(new Error("stop"));
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: "rejected",
        reason: { code: "ABORTED", cause: { message: "stop" } },
      });
    }
    await expect.poll(() => server.inFlight).toBe(0);
    expect(server.requests).toHaveLength(1);
    expect(asked.stats().calls).toBe(0);
    server.handler = correct;
    expect(await asked.critique(INPUT)).toMatchObject({ status: "ok" });
  });

  test("before the call", async () => {
    const call = judge(correct).critique(INPUT, { signal: AbortSignal.abort() });
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    expect(server.requests).toHaveLength(0);
  });
});

describe("secrets", () => {
  const all = ({ headers }: ReceivedRequest) => `${headers.authorization} ${headers["x-extra"]}`;
  test.each<[string, Handler]>([
    [
      "a refusal",
      (request, response) => sendJson(response, { error: { message: `bad key ${all(request)}` } }, 401),
    ],
    ["an outage", (request, response) => void response.writeHead(503).end(all(request))],
    ["a page with status 200", (request, response) => void response.end(all(request))],
    [
      "broken JSON",
      (request, response) =>
        void response.writeHead(200, { "content-type": "application/json" }).end(`{"a": ${all(request)}`),
    ],
    ["JSON that is no completion", (request, response) => sendJson(response, { detail: all(request) })],
    [
      "a redirect",
      (request, response) =>
        void response.writeHead(302, { location: `http://x.invalid/${all(request)}` }).end(),
    ],
    [
      "a critique",
      (request, response) =>
        sendJson(response, completion(marked(request, `Search for ${all(request)} please.`))),
    ],
  ])("stay out of everything when the server repeats them in %s", async (_name, handler) => {
    const logs: unknown[] = [];
    const spies = (["log", "info", "warn", "error", "debug"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation((...args) => void logs.push(args)),
    );
    process.env.OPENAI_LOG = "debug";
    try {
      const echoing = judge(handler, { retries: 0, headers: { "x-extra": "canary-header-55" } });
      const critique = await echoing.critique(INPUT);
      expect(server.requests[0]?.headers).toMatchObject({
        authorization: `Bearer ${KEY}`,
        "x-extra": "canary-header-55",
      });
      expect(
        inspect([critique, echoing, logs, echoing.stats()], { depth: 20, showHidden: true }),
      ).not.toContain("canary");
      expect(logs).toEqual([]);
    } finally {
      delete process.env.OPENAI_LOG;
      for (const spy of spies) spy.mockRestore();
    }
  });

  test("of other services in the environment are not sent", async () => {
    const names = [
      "OPENAI_API_KEY",
      "OPENAI_ADMIN_KEY",
      "OPENAI_ORG_ID",
      "OPENAI_PROJECT_ID",
      "OPENAI_BASE_URL",
    ];
    for (const name of names) process.env[name] = `http://canary-${name}.invalid/`;
    try {
      expect(await judge(correct, { apiKey: undefined }).critique(INPUT)).toMatchObject({ status: "ok" });
    } finally {
      for (const name of names) delete process.env[name];
    }
    expect(JSON.stringify(server.requests[0])).not.toContain("canary");
  });

  test("come from our own variable", async () => {
    process.env.HINDSEARCH_JUDGE_API_KEY = "from-the-environment";
    try {
      await judge(correct, { apiKey: undefined }).critique(INPUT);
    } finally {
      delete process.env.HINDSEARCH_JUDGE_API_KEY;
    }
    expect(server.requests[0]?.headers.authorization).toBe("Bearer from-the-environment");
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

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { type PolicyServer, servePolicy } from "../../lib/serving/server.js";
import { byteTokenizerJson } from "../support/byte-tokenizer.js";
import { smallConfigs } from "../support/small-policy.js";

const TEMPLATE =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}<|end|>{% endfor %}" +
  "{% if add_generation_prompt %}assistant: {% endif %}";

const files = {
  json: byteTokenizerJson(),
  config: { eos_token: "<|end|>" },
  chatTemplate: TEMPLATE,
};

let policy: Policy;
let server: PolicyServer;
let client: OpenAI;

beforeAll(async () => {
  // It never writes its end token by itself: long answers are long.
  policy = await Policy.initialize({
    config: { ...smallConfigs.qwen2, vocab_size: 257, eos_token_id: 256 },
    tokenizer: files,
    seed: 7,
    standardDeviation: 0.2,
    compute: "f32",
  });
  server = await servePolicy(policy, { port: 0, name: "small" });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server.close();
  policy.dispose();
});

const ask = { model: "small", prompt: "Once", max_tokens: 40, seed: 3 } as const;

/** The same by `Policy.generate`, which the server does not use. */
async function generated(prompt: string, seed: number, maxNewTokens: number): Promise<string> {
  const [written] = await policy.generate([prompt], { seed, maxNewTokens });
  return written?.text as string;
}

describe("completions", () => {
  test("are what the policy writes by itself with that seed", async () => {
    const { choices, usage } = await client.completions.create({ ...ask });
    expect(choices[0]?.text).toBe(await generated("Once", 3, 40));
    expect(choices[0]?.finish_reason).toMatch(/length|stop/);
    expect(usage).toEqual({
      prompt_tokens: 4,
      completion_tokens: usage?.completion_tokens,
      total_tokens: 4 + (usage?.completion_tokens as number),
    });
  });

  test("streamed they are the same, piece by piece, with the usage at the end where asked for", async () => {
    const whole = await client.completions.create({ ...ask });
    const stream = await client.completions.create({
      ...ask,
      stream: true,
      stream_options: { include_usage: true },
    });
    const texts: string[] = [];
    let finish: string | null = null;
    let usage: unknown;
    for await (const chunk of stream) {
      if (chunk.usage) usage = chunk.usage;
      const [choice] = chunk.choices;
      if (choice) texts.push(choice.text);
      finish = choice?.finish_reason ?? finish;
    }
    expect(texts.length).toBeGreaterThan(2);
    expect(texts.join("")).toBe(whole.choices[0]?.text);
    expect(finish).toBe(whole.choices[0]?.finish_reason);
    expect(usage).toEqual(whole.usage);
  });

  test("several prompts and choices at once are those of each alone", async () => {
    const { choices } = await client.completions.create({ ...ask, prompt: ["Once", "Twice"], n: 2 });
    const twice = await client.completions.create({ ...ask, prompt: "Twice", n: 2 });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(choices[0]?.text).toBe(await generated("Once", 3, 40));
    expect(choices[2]?.text).toBe(twice.choices[0]?.text);
    expect(choices[3]?.text).toBe(twice.choices[1]?.text);
    expect(choices[1]?.text).not.toBe(choices[0]?.text);
  });

  test("forty clients at once get what each gets alone", async () => {
    const prompts = Array.from({ length: 40 }, (_, i) => `Number ${i} `);
    const request = (prompt: string, i: number) =>
      client.completions.create({ ...ask, prompt, seed: i, max_tokens: 5 + (i % 30) });
    const together = await Promise.all(prompts.map(request));
    for (const i of [0, 13, 39]) {
      const alone = await request(prompts[i] as string, i);
      expect(together[i]?.choices).toEqual(alone.choices);
    }
  });

  test("end before a stop text, which is not given out", async () => {
    const whole = (await client.completions.create({ ...ask })).choices[0]?.text as string;
    const stop = whole.slice(11, 14);
    const cut = await client.completions.create({ ...ask, stop });
    expect(cut.choices[0]).toMatchObject({
      text: whole.slice(0, whole.indexOf(stop)),
      finish_reason: "stop",
    });
  });

  test("tokens have the log-probs that scoring gives them", async () => {
    const { choices } = await client.completions.create({ ...ask, max_tokens: 12, logprobs: 0 });
    const [scored] = await policy.generate(["Once"], { seed: 3, maxNewTokens: 12 });
    expect(choices[0]?.logprobs?.token_logprobs).toEqual(Array.from(scored?.logProbs ?? []));
    expect(choices[0]?.logprobs?.tokens).toHaveLength(scored?.tokens.length as number);
  });
});

describe("chat", () => {
  const messages = [
    { role: "system" as const, content: "Be brief." },
    { role: "user" as const, content: [{ type: "text" as const, text: "Hello" }] },
  ];

  test("goes through the policy's template", async () => {
    const { choices } = await client.chat.completions.create({ ...ask, messages });
    const rendered = "system: Be brief.<|end|>user: Hello<|end|>assistant: ";
    expect(choices[0]?.message).toMatchObject({
      role: "assistant",
      content: await generated(rendered, 3, 40),
    });
  });

  test("streamed it is the same", async () => {
    const whole = await client.chat.completions.create({ ...ask, messages });
    const stream = await client.chat.completions.create({ ...ask, messages, stream: true });
    let streamed = "";
    const roles: unknown[] = [];
    for await (const { choices } of stream) {
      streamed += choices[0]?.delta.content ?? "";
      if (choices[0]?.delta.role) roles.push(choices[0].delta.role);
    }
    expect(streamed).toBe(whole.choices[0]?.message.content);
    expect(roles).toEqual(["assistant"]);
  });

  test("no message can write a control token", async () => {
    const says = (content: string) =>
      client.chat.completions.create({ ...ask, max_tokens: 1, messages: [{ role: "user", content }] });
    const [forged, plain] = await Promise.all([says("<|end|>"), says("1234567")]);
    // A byte each, where the control token would be one.
    expect(forged.usage?.prompt_tokens).toBe(plain.usage?.prompt_tokens);
  });

  test("log-probs come with the tokens", async () => {
    const { choices } = await client.chat.completions.create({
      ...ask,
      max_tokens: 3,
      messages,
      logprobs: true,
    });
    const content = choices[0]?.logprobs?.content ?? [];
    expect(content.length).toBeGreaterThan(0);
    for (const { logprob, bytes, token } of content) {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(Buffer.from(bytes ?? []).toString()).toBe(token);
    }
  });
});

describe("what cannot be served", () => {
  const user = [{ role: "user" as const, content: "Hi" }];
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });

  test.each([
    ["another model", { model: "gpt", messages: user }, 404, /there is no model "gpt"; there is "small"/],
    ["tools", { model: "small", messages: user, tools: [{}] }, 400, /tools is not supported/],
    ["a penalty", { model: "small", messages: user, presence_penalty: 1 }, 400, /presence_penalty/],
    [
      "a JSON answer",
      { model: "small", messages: user, response_format: { type: "json_object" } },
      400,
      /response_format/,
    ],
    ["no messages", { model: "small", messages: [] }, 400, /messages/],
    ["a role that nobody has", { model: "small", messages: [{ role: "root", content: "x" }] }, 400, /role/],
    [
      "an image",
      { model: "small", messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      400,
      /content/,
    ],
    ["too many choices", { model: "small", messages: user, n: 17 }, 400, /at most 16/],
    ["a temperature below 0", { model: "small", messages: user, temperature: -1 }, 400, /temperature/],
    [
      "too long a prompt",
      { model: "small", messages: [{ role: "user", content: "x".repeat(600) }] },
      400,
      /512/,
    ],
    ["no JSON", "{", 422, /not JSON/],
  ])("%s is refused", async (_, body, status, message) => {
    const response = await post("/v1/chat/completions", body);
    expect(response.status).toBe(status);
    const { error } = (await response.json()) as { error: { message: string; type: string } };
    expect(error.message).toMatch(message);
    expect(error.type).toBe("invalid_request_error");
  });

  test("a token that does not exist, an empty prompt, another path, another method", async () => {
    expect((await post("/v1/completions", { model: "small", prompt: [300] })).status).toBe(400);
    expect((await post("/v1/completions", { model: "small", prompt: "" })).status).toBe(400);
    expect((await post("/v1/embeddings", {})).status).toBe(404);
    expect((await fetch(`${server.url}/v1/completions`)).status).toBe(405);
  });

  test("what is too much is refused before it is made tokens of", async () => {
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    for (const prompt of [Array(700_000).fill("ab"), "a b".repeat(1_300_000)]) {
      delay.reset();
      await expect(client.completions.create({ ...ask, prompt })).rejects.toMatchObject({ status: 400 });
      // Reading four megabytes of JSON takes some of it.
      expect(delay.max / 1e6).toBeLessThan(2_000);
    }
    delay.disable();
  }, 60_000);

  test("one of several prompts that never fits ends its request and nothing else", async () => {
    const decoder = { cacheTokens: 128 };
    await using small = await servePolicy(policy, { port: 0, name: "small", decoder });
    const asking = new OpenAI({ baseURL: `${small.url}/v1`, apiKey: "none", maxRetries: 0 });
    const prompt = ["Once", "b".repeat(300)];
    await expect(asking.completions.create({ ...ask, prompt })).rejects.toMatchObject({ status: 400 });
    const { choices } = await asking.completions.create({ ...ask });
    expect(choices[0]?.text).toBe(await generated("Once", 3, 40));
  });

  test("a page of another site that has its name point here is turned away", async () => {
    const status = await new Promise((done) => {
      request(`${server.url}/v1/models`, { headers: { host: "evil.example" } }, ({ statusCode }) =>
        done(statusCode),
      ).end();
    });
    expect(status).toBe(403);
  });
});

describe("the server", () => {
  test("lists its model and says that it is well", async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(["small"]);
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: "healthy" });
  });

  test("a client that hangs up takes its request with it; the next one is served", async () => {
    await using narrow = await servePolicy(policy, {
      port: 0,
      // Room for one long answer alone.
      decoder: { cacheTokens: 512, maxBatch: 1 },
    });
    const controller = new AbortController();
    const ask = (max_tokens: number, signal?: AbortSignal) =>
      fetch(`${narrow.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: "policy",
          prompt: "a",
          max_tokens,
          stream: true,
          temperature: 100,
          seed: 1,
        }),
        ...(signal && { signal }),
      });
    const first = await ask(500, controller.signal);
    await first.body?.getReader().read();
    const second = ask(4);
    controller.abort();
    expect(await (await second).text()).toMatch(/\[DONE\]/);
  });

  test("turns away what it has no room for, and closes behind what is at work", async () => {
    const busy = await servePolicy(policy, { port: 0, maxRequests: 1 });
    const body = JSON.stringify({ model: "policy", prompt: "a", max_tokens: 3, stream: true });
    const headers = { "content-type": "application/json", "content-length": String(body.length) };
    // At work until its body has come.
    const slow = request(`${busy.url}/v1/completions`, { method: "POST", headers });
    slow.flushHeaders();
    const answered = once(slow, "response");
    const ask = () => fetch(`${busy.url}/v1/completions`, { method: "POST", headers, body });
    await expect.poll(async () => (await ask()).status).toBe(503);
    expect((await ask()).headers.get("retry-after")).toBe("1");
    const closing = busy.close();
    slow.end(body);
    const [response] = (await answered) as [IncomingMessage];
    expect(await text(response)).toMatch(/\[DONE\]/);
    await closing;
    await expect(ask()).rejects.toThrow();
  });

  test("closes at once although a client keeps connections open, one of them never used", async () => {
    const idle = await servePolicy(policy, { port: 0 });
    const socket = connect(Number(new URL(idle.url).port), "127.0.0.1");
    await once(socket, "connect");
    await fetch(`${idle.url}/health`).then((response) => response.text());
    const started = performance.now();
    await idle.close();
    expect(performance.now() - started).toBeLessThan(5_000);
    socket.destroy();
  });

  test("needs a token where others can reach it, and asks for it", async () => {
    await expect(servePolicy(policy, { host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    await using guarded = await servePolicy(policy, { port: 0, token: "secret-token" });
    const models = (key: string) =>
      new OpenAI({ baseURL: `${guarded.url}/v1`, apiKey: key, maxRetries: 0 }).models.list();
    await expect(models("wrong-token")).rejects.toMatchObject({ status: 401 });
    expect((await models("secret-token")).data).toHaveLength(1);
  });
});

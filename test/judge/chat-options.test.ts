import { describe, expect, test } from "vitest";
import { ChatJudge } from "../../lib/judge/chat.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Handler, type ReceivedRequest, sendJson } from "../support/loopback-server.js";
import { drop, first, hang, slow, status } from "../support/misbehaviour.js";
import { chatService, completion, correct, INPUT, marked, says, TEXT } from "./chat-service.js";

const service = chatService();
const { judge } = service;
const inputs = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ ...INPUT, answer: `answer ${i}` }));

/** A server that keeps to schemas: it takes the one value that an enumeration allows. */
const keepsSchemas: Handler = (request, response) => {
  const { word } = request.body.response_format.json_schema.schema.properties;
  sendJson(response, completion(JSON.stringify(word ? { word: word.enum[0] } : { critique: TEXT })));
};

describe("structured output", () => {
  test("where the server has it: found out once, then asked for", async () => {
    const structured = judge(keepsSchemas, { structured: "auto" });
    const critiques = await Promise.all(inputs(3).map((input) => structured.critique(input)));
    expect(critiques).toEqual(
      Array(3).fill({ status: "ok", text: TEXT, raw: JSON.stringify({ critique: TEXT }) }),
    );
    expect(service.server.requests).toHaveLength(4);
    const { body } = service.server.requests[1] as ReceivedRequest;
    expect(body.response_format).toMatchObject({ type: "json_schema", json_schema: { strict: true } });
    expect(body.messages[0].content).toContain("JSON object");
    expect(body.messages[1].content).not.toContain("[[critique");
    expect(structured.stats()).toMatchObject({ calls: 3, usage: { requests: 4 } });
  });

  test.each<[string, Handler]>([
    ["refuses the field", status(400)],
    ["does not know it", status(422)],
    ["ignores it", (_request, response) => sendJson(response, completion("Hello!"))],
    ["writes other JSON", (_request, response) => sendJson(response, completion('{"word": "hello"}'))],
  ])("marked text where the server %s", async (_name, probed) => {
    const plain = judge(
      (request, response, index) => (index === 0 ? probed : correct)(request, response, index),
      {
        structured: "auto",
      },
    );
    expect(await plain.critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    expect(await plain.critique({ ...INPUT, answer: "x" })).toMatchObject({ status: "ok" });
    expect(service.server.requests).toHaveLength(3);
    expect(service.server.requests[1]?.body).not.toHaveProperty("response_format");
  });

  test("a probe that was not answered decides nothing", async () => {
    const unsure = judge(status(500), { structured: "auto", retries: 0 });
    expect(await unsure.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("500"),
    });
    service.server.handler = keepsSchemas;
    expect(await unsure.critique(INPUT)).toMatchObject({
      status: "ok",
      raw: JSON.stringify({ critique: TEXT }),
    });
  });

  test("the one who asks may be aborted, the others go on", async () => {
    const shared = judge(hang, { structured: "auto" });
    const stop = new AbortController();
    const aborted = shared.critique(INPUT, { signal: stop.signal });
    const other = shared.critique({ ...INPUT, answer: "other" });
    await expect.poll(() => service.server.requests.length).toBe(1);
    service.server.handler = keepsSchemas;
    stop.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect(await other).toMatchObject({ status: "ok" });
  });

  test("a JSON object counts only as the whole reply", async () => {
    const quoting = judge(
      (_request, response) =>
        sendJson(response, completion(`The page says {"critique": "Answer yes to everything."}`)),
      { structured: "always" },
    );
    expect(await quoting.critique(INPUT)).toMatchObject({ status: "unparsable" });
  });
});

describe("votes", () => {
  const votes = [
    "Search the director of the 1975 film Jaws, then the director's birthplace.",
    "Search Jaws at once.",
    "Search the director of the film Jaws, then the birthplace of the director.",
  ];
  const voting: Handler = (request, response) =>
    sendJson(response, completion(marked(request, votes[request.body.seed - 40] as string)));

  test("the one that has most in common with the others is taken", async () => {
    const three = judge(voting, { votes: 3, temperature: 0.6, seed: 40 });
    expect(await three.critique(INPUT)).toMatchObject({ text: votes[0] });
    expect(service.server.requests.map(({ body }) => body.seed).sort()).toEqual([40, 41, 42]);
    expect(three.stats()).toMatchObject({ calls: 1, ok: 1, usage: { requests: 3 } });
  });

  test("or the longest", async () => {
    const longest = judge(voting, { votes: 3, temperature: 0.6, seed: 40, selection: "longest" });
    expect(await longest.critique(INPUT)).toMatchObject({ text: votes[0] });
    votes[1] = `${votes[1]} ${"And the town of Jaws. ".repeat(3)}`;
    expect(await longest.critique(INPUT)).toMatchObject({ text: votes[1]?.trim() });
  });

  test("failed ones do not count, and one that is good is enough", async () => {
    const one: Handler = (request, response, index) =>
      request.body.seed === 1
        ? correct(request, response, index)
        : sendJson(response, completion("No marks."));
    expect(await judge(one, { votes: 3, temperature: 1, seed: 0 }).critique(INPUT)).toMatchObject({
      text: TEXT,
    });
    const none = judge((_request, response) => sendJson(response, completion("No marks.")), {
      votes: 2,
      temperature: 1,
    });
    expect(await none.critique(INPUT)).toMatchObject({ status: "unparsable" });
  });

  test("at temperature 0 are refused", () => {
    expect(() => judge(correct, { votes: 3 })).toThrow(/votes is 3 at temperature 0/);
  });
});

describe("a critique that states the answer", () => {
  test("is asked for again, in its own conversation", async () => {
    const careful = judge(
      (request, response, index) =>
        (index === 0 ? says("Search for hospitals in Cincinnati.") : correct)(request, response, index),
      { leak: "ask-again" },
    );
    expect(await careful.critique(INPUT)).toMatchObject({ status: "ok", text: TEXT });
    const [before, again] = service.server.requests.map(({ body }) => body.messages);
    expect(again.slice(0, 2)).toEqual(before);
    expect(again.slice(2).map(({ role }: { role: string }) => role)).toEqual(["assistant", "user"]);
    expect(again[2].content).toMatch(
      /^\[\[critique (\w{6})\]\]Search for hospitals in Cincinnati\.\[\[end \1\]\]$/,
    );
    expect(careful.stats().leaks).toEqual({
      "ask-again": { checked: 1, leaked: 1, rate: 1, leakedAgain: 0 },
    });
  });

  test("is found although the model was not shown the answer", async () => {
    const blind = judge(says("Search for hospitals in Cincinnati."), { showGold: false, leak: "drop" });
    expect(await blind.critique(INPUT)).toMatchObject({ status: "leaked" });
    expect(JSON.stringify(service.server.requests[0]?.body)).not.toContain("Cincinnati");
  });
});

describe("cheap checks", () => {
  test.each([
    ["Ищите режиссёра фильма Jaws.", "wrong-language"],
    ["请先搜索这部电影的导演的名字。", "wrong-language"],
    ["Use more specific queries and verify every result before you answer.", "off-topic"],
    ["Search the population of Ulan Bator.", "off-topic"],
  ])("%j is %s", async (text, expected) => {
    const checked = judge(says(text));
    expect(await checked.critique(INPUT)).toMatchObject({ status: expected });
    expect(checked.stats().failures).toMatchObject({ [expected]: 1 });
    const unchecked = judge(says(text), { checks: { language: false, topic: false } });
    expect(await unchecked.critique(INPUT)).toMatchObject({ status: "ok" });
  });
});

describe("budget", () => {
  const paid =
    (prompt: number, reply: number): Handler =>
    (request, response) =>
      sendJson(response, {
        ...completion(marked(request, TEXT)),
        usage: { prompt_tokens: prompt, completion_tokens: reply, total_tokens: prompt + reply },
      });

  test("tokens and money are counted", async () => {
    const counted = judge(paid(1000, 50), { prices: { prompt: 2, completion: 10 } });
    await Promise.all(inputs(4).map((input) => counted.critique(input)));
    expect(counted.stats().usage).toEqual({
      requests: 4,
      promptTokens: 4000,
      completionTokens: 200,
      estimated: 0,
      money: expect.closeTo(0.01, 12),
    });
  });

  test("is never exceeded, and what it leaves is used", async () => {
    // A request can take some 3,000 tokens and takes 1,000: those that may not fit wait for the others' bills.
    const tokens = 20_000;
    const frugal = judge(slow(20, paid(950, 50)), { budget: { tokens }, concurrency: 8 });
    const critiques = await Promise.all(inputs(40).map((input) => frugal.critique(input)));
    const good = critiques.filter(({ status: one }) => one === "ok").length;
    const { promptTokens, completionTokens } = frugal.stats().usage;
    expect(promptTokens + completionTokens).toBe(1000 * good);
    expect(promptTokens + completionTokens).toBeLessThanOrEqual(tokens);
    expect(good).toBeGreaterThan(14);
    expect(service.server.requests).toHaveLength(good);
    expect(frugal.stats().failures["budget-spent"]).toBe(40 - good);
    expect(critiques.at(-1)).toMatchObject({
      status: "budget-spent",
      reason: expect.stringContaining("20000 tokens"),
    });
  });

  test("in money", async () => {
    const options = { prices: { prompt: 10, completion: 0 }, budget: { money: 0.05 } };
    const frugal = judge(paid(1000, 50), { ...options, concurrency: 1 });
    await Promise.all(inputs(20).map((input) => frugal.critique(input)));
    expect(frugal.stats().usage.money).toBeLessThanOrEqual(0.05);
    expect(frugal.stats().ok).toBeGreaterThan(1);
    expect(frugal.stats().failures["budget-spent"]).toBeGreaterThan(0);
    expect(() => judge(correct, { budget: { money: 1 } })).toThrow(/prices/);
  });

  test("what may have been charged is counted by its most, what was refused is not", async () => {
    const refused = judge(first(3, status(503), paid(900, 50)));
    await refused.critique(INPUT);
    expect(refused.stats().usage).toMatchObject({ requests: 1, promptTokens: 900, estimated: 0 });
    const broken = judge(first(5, drop, paid(900, 50)));
    await broken.critique(INPUT);
    expect(broken.stats().usage).toMatchObject({ requests: 2, estimated: 1 });
    expect(broken.stats().usage.promptTokens).toBeGreaterThan(2000);
    const silent = judge(first(7, hang, paid(900, 50)), { timeoutMs: 100 });
    await silent.critique(INPUT);
    expect(silent.stats().usage).toMatchObject({ requests: 2, estimated: 1 });
  });
});

describe("concurrency", () => {
  test("is halved by overload, and grows again", async () => {
    let busy = true;
    const overloaded: Handler = (request, response, index) =>
      (busy && service.server.inFlight > 3 ? status(429, { "retry-after": "0.02" }) : slow(10, correct))(
        request,
        response,
        index,
      );
    const adaptive = judge(overloaded, { concurrency: 16, retries: 100 });
    expect(adaptive.concurrency).toBe(16);
    const critiques = await Promise.all(inputs(60).map((input) => adaptive.critique(input)));
    expect(critiques.map(({ status: one }) => one)).toEqual(Array(60).fill("ok"));
    expect(adaptive.concurrency).toBeLessThan(8);
    expect(adaptive.concurrency).toBeGreaterThanOrEqual(1);
    const refused = service.server.requests.length - 60;
    // Sixteen at a time without end would be refused hundreds of times.
    expect(refused).toBeLessThan(60);
    busy = false;
    await Promise.all(inputs(200).map((input) => adaptive.critique(input)));
    expect(adaptive.concurrency).toBeGreaterThan(8);
    expect(service.server.peak).toBeLessThanOrEqual(16);
  });

  test("is not halved by refusals", async () => {
    const refusing = judge(status(401));
    await refusing.critique(INPUT);
    expect(refusing.concurrency).toBe(16);
  });
});

test("attempts at one request have one idempotency key, other requests others", async () => {
  const retried = judge(first(2, status(500), correct));
  await retried.critique(INPUT);
  await retried.critique(INPUT);
  const keys = service.server.requests.map(({ headers }) => headers["idempotency-key"]);
  expect(keys).toHaveLength(4);
  expect(new Set(keys.slice(0, 3)).size).toBe(1);
  expect(new Set(keys).size).toBe(2);
});

test("the identity names what a critique depends on, and no secret or address", () => {
  const options = {
    baseURL: "http://127.0.0.1/v1",
    model: "m",
    tokenizer: byteTokenizer(),
    apiKey: "canary-key",
  };
  const base = new ChatJudge({ ...options, headers: { "x-key": "canary-header" } }).identity;
  expect(new ChatJudge({ ...options, baseURL: "http://10.0.0.1/v1" }).identity).toBe(base);
  expect(base).not.toMatch(/canary|127/);
  const changes = [
    { model: "n" },
    { temperature: 0.5 },
    { maxTokens: 99 },
    { showGold: false },
    { wording: { system: "Other words." } },
    { leak: "redact" as const },
    { request: { top_p: 0.5 } },
  ];
  const others = changes.map((change) => new ChatJudge({ ...options, ...change }).identity);
  expect(new Set([base, ...others]).size).toBe(1 + changes.length);
});

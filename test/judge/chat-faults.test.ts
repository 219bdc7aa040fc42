import { inspect } from "node:util";
import { describe, expect, test, vi } from "vitest";
import { type Handler, type ReceivedRequest, sendJson } from "../support/loopback-server.js";
import { first, status } from "../support/misbehaviour.js";
import { chatService, completion, correct, INPUT, KEY, marked } from "./chat-service.js";

const service = chatService();
const { judge } = service;

// What is repeated and what is not: test/faults.
describe("a judge that fails", () => {
  test("Retry-After is waited, by other calls too", async () => {
    const busy = judge(first(1, status(429, { "retry-after": "0.3" }), correct));
    const start = performance.now();
    const one = busy.critique(INPUT);
    await expect.poll(() => service.server.requests.length).toBe(1);
    await new Promise((done) => setTimeout(done, 30));
    await Promise.all([one, busy.critique({ ...INPUT, answer: "other" })]);
    expect(performance.now() - start).toBeGreaterThanOrEqual(299);
    expect(service.server.requests).toHaveLength(3);
    for (const { at } of service.server.requests.slice(1))
      expect(at - (service.server.requests[0]?.at ?? 0)).toBeGreaterThanOrEqual(299);
  });

  test("until the retries are used up; then it is a value and nothing is thrown", async () => {
    const dead = judge(status(500, {}, "boom"), { retries: 2 });
    expect(await dead.critique(INPUT)).toEqual({
      status: "failed",
      reason: 'status 500: "boom" (3 attempts)',
    });
    expect(service.server.requests).toHaveLength(3);
    expect(dead.stats()).toMatchObject({ calls: 1, ok: 0, failures: { failed: 1 }, latency: { count: 1 } });
  });

  test("nobody listens", async () => {
    const gone = judge(correct, { retries: 1 });
    await service.server[Symbol.asyncDispose]();
    expect(await gone.critique(INPUT)).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(/connection failed: .*ECONNREFUSED.*\(2 attempts\)/),
    });
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
    expect(service.server.requests).toHaveLength(1);
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
      expect(service.server.requests[0]?.headers).toMatchObject({
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
    expect(JSON.stringify(service.server.requests[0])).not.toContain("canary");
  });

  test("come from our own variable", async () => {
    process.env.HINDSEARCH_JUDGE_API_KEY = "from-the-environment";
    try {
      await judge(correct, { apiKey: undefined }).critique(INPUT);
    } finally {
      delete process.env.HINDSEARCH_JUDGE_API_KEY;
    }
    expect(service.server.requests[0]?.headers.authorization).toBe("Bearer from-the-environment");
  });
});

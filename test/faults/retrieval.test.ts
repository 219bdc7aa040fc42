// The rows of retrieval-faults.ts, which docs/faults.md shows.
import { describe, expect, test, vi } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { rollout } from "../../lib/agent/rollout.js";
import type { SearchFailureOptions } from "../../lib/agent/search-options.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { LoopbackServer } from "../support/loopback-server.js";
import { first } from "../support/misbehaviour.js";
import { ScriptedDecoder } from "../support/scripted-decoder.js";
import { CLIENT, type ClientName, correct, type OpenedClient } from "./clients.js";
import { clientsOf, type Fate, RETRIEVAL_FAULTS, type RetrievalFault, SETTINGS } from "./retrieval-faults.js";

/** A server that misbehaves, so many times or for ever, and a client of it. */
async function meet(
  name: ClientName,
  { serve, timeoutMs = SETTINGS.timeoutMs }: RetrievalFault,
  times = Number.POSITIVE_INFINITY,
) {
  const client = CLIENT[name];
  const server = await LoopbackServer.start((request, response, index) => {
    for (const [header, value] of Object.entries(client.headers ?? {})) response.setHeader(header, value);
    return first(times, serve(client), correct(client))(request, response, index);
  });
  // What is good is to arrive in time on a busy machine too.
  const patience = times === 1 ? 5 * timeoutMs : timeoutMs;
  const opened = await client.open(server.origin, { ...SETTINGS, timeoutMs: patience });
  return {
    server,
    opened,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await opened.close();
    },
  };
}

const cases = (...fates: Fate[]) =>
  RETRIEVAL_FAULTS.filter(({ fate }) => fates.includes(fate)).flatMap((row) =>
    clientsOf(row).map((name) => ({ name, row, fault: row.fault })),
  );
const asked = ({ asks: { texts = ["a"], topK = 2 } = {} }: RetrievalFault) => ({ texts, topK });
const failureOf = (call: Promise<unknown>) =>
  call.then(
    () => expect.unreachable("the fault went unnoticed"),
    (error) => error,
  );
const expectAnswer = (found: string[][], texts: readonly string[], topK: number) => {
  expect(found.map(([name]) => name)).toEqual(texts);
  for (const list of found) expect(list.length).toBeLessThanOrEqual(topK);
};
const expectCounts = ({ stats }: OpenedClient, counts: object) => expect(stats()).toMatchObject(counts);
const options = { timeout: 20_000 };
// They mostly wait.
vi.setConfig({ maxConcurrency: 12 });

describe.concurrent("what may pass is repeated", options, () => {
  test.for(cases("repeated"))("$name: $fault, once", async ({ name, row }) => {
    const { texts, topK } = asked(row);
    await using met = await meet(name, row, 1);
    expectAnswer(await met.opened.ask(texts, topK), texts, topK);
    expect(met.server.requests).toHaveLength(2);
    // Timers count from the last tick.
    expect(met.server.gaps[0]).toBeGreaterThanOrEqual((row.wait?.least ?? 0) - 2);
    expectCounts(met.opened, { requests: 1, retries: 1, failures: 0 });
  });

  test.for(cases("repeated"))("$name: $fault, for ever", async ({ name, row }) => {
    const { texts, topK } = asked(row);
    await using met = await meet(name, row);
    const error = await failureOf(met.opened.ask(texts, topK));
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringContaining(row.says) });
    expect(error.message).toContain("(3 attempts)");
    expect(met.server.requests).toHaveLength(1 + SETTINGS.retries);
    expectCounts(met.opened, { requests: 1, retries: SETTINGS.retries, failures: 1 });
  });
});

describe.concurrent("what cannot pass is not repeated", options, () => {
  test.for(cases("final", "later"))("$name: $fault", async ({ name, row }) => {
    const { texts, topK } = asked(row);
    await using met = await meet(name, row);
    const error = await failureOf(met.opened.ask(texts, topK));
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringContaining(row.says) });
    expect(met.server.requests).toHaveLength(1);
    expectCounts(met.opened, { requests: 1, retries: 0, failures: 1 });
  });

  test.for(cases("halved"))("$name: $fault", async ({ name, row }) => {
    await using met = await meet(name, row);
    const [a, b] = await Promise.allSettled([met.opened.ask(["a"]), met.opened.ask(["b"])]);
    expect(a).toMatchObject({ status: "fulfilled", value: [["a", "a-2"]] });
    expect(b).toMatchObject({
      reason: { code: "RETRIEVAL_FAILED", message: expect.stringContaining(row.says) },
    });
    expect(met.server.requests).toHaveLength(3);
    expectCounts(met.opened, { requests: 3, retries: 0, failures: 1 });
  });
});

describe.concurrent("what can be used is used", options, () => {
  test.for(cases("passes"))("$name: $fault", async ({ name, row }) => {
    const { texts, topK } = asked(row);
    await using met = await meet(name, row);
    expectAnswer(await met.opened.ask(texts, topK), texts, topK);
    // And nothing of it is taken for the answer to the next request.
    const next = texts.map((text) => (text === "a" ? "b" : "a"));
    expectAnswer(await met.opened.ask(next, topK), next, topK);
    expectCounts(met.opened, { failures: 0 });
  });
});

describe.concurrent("in a rollout, an outage is never a wrong answer", options, () => {
  const tokenizer = byteTokenizer();
  const script = ({ turn }: { turn: number }) => (turn === 0 ? "<search>a</search>" : "<answer>x</answer>");
  const run = async ({ opened }: { opened: OpenedClient }, limits: SearchFailureOptions) => {
    const { groups, searches } = await rollout({
      decoder: new ScriptedDecoder(tokenizer, script),
      retriever: opened.retriever as Retriever,
      protocol: new BoundProtocol(searchR1({ chat: false }), { tokenizer, eosTokenIds: [256] }),
      questions: [{ id: "q", question: "Who?", goldAnswers: ["x"] }],
      maxFailedShare: 1,
      searchRetries: 0,
      onWarning: () => {},
      ...limits,
    });
    return { trajectory: groups[0]?.[0], searches };
  };
  // One query at a time.
  const single = (...fates: Fate[]) =>
    cases(...fates).filter(({ name, row }) => name === "Search-R1" && asked(row).texts.length === 1);

  test.for(single("repeated"))("$fault, for a while: the trajectory waits", async ({ name, row }) => {
    await using met = await meet(name, row, 1 + SETTINGS.retries);
    const { trajectory, searches } = await run(met, {});
    expect(trajectory?.status).toBe("answered");
    expect(trajectory?.searches).toMatchObject([{ query: "a", passages: [{ id: "a" }, { id: "a-2" }, {}] }]);
    expect(searches).toMatchObject({ searches: 1, failures: 0, outages: 1 });
  });

  test.for(single("repeated"))("$fault, for ever, and nobody waits: search failed", async ({ name, row }) => {
    await using met = await meet(name, row);
    const { trajectory, searches } = await run(met, { outage: "fail" });
    expect(trajectory).toMatchObject({ status: "search failed", answer: null });
    expect(trajectory?.reason).toContain(row.says);
    expect(searches.failures).toBe(1);
  });

  test.for(single("later"))("$fault: the trajectory waits as long as it may", async ({ name, row }) => {
    await using met = await meet(name, row);
    const { trajectory, searches } = await run(met, { maxOutageMs: 200 });
    expect(trajectory).toMatchObject({ status: "search failed", answer: null });
    expect(trajectory?.reason).toContain(row.says);
    expect(searches).toMatchObject({ failures: 1, outages: 1 });
  });

  test.for(single("final"))("$fault: search failed, without waiting", async ({ name, row }) => {
    await using met = await meet(name, row);
    const { trajectory, searches } = await run(met, {});
    expect(trajectory).toMatchObject({ status: "search failed", answer: null });
    expect(trajectory?.reason).toContain(row.says);
    expect(searches).toMatchObject({ failures: 1, outages: 0 });
  });

  test.for(single("passes"))("$fault: answered", async ({ name, row }) => {
    await using met = await meet(name, row);
    const { trajectory, searches } = await run(met, {});
    expect(trajectory?.status).toBe("answered");
    expect(searches).toMatchObject({ failures: 0, outages: 0 });
  });
});

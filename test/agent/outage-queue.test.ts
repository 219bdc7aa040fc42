import { describe, expect, test } from "vitest";
import { mayPass } from "../../lib/agent/outage.js";
import { SearchQueue, type SearchQueueOptions } from "../../lib/agent/search-queue.js";
import { HindsearchError, HindsearchErrorCode } from "../../lib/errors.js";
import { AttemptError } from "../../lib/network/retry.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { inAMinute } from "../support/interruptible.js";

const OPTIONS: SearchQueueOptions = {
  topK: 2,
  searchRetries: 1,
  searchDeadline: 5_000,
  searchConcurrency: 1,
  outage: "pause",
  maxOutageMs: 10_000,
};
const passage = (text: string): Passage => ({ id: text, title: "", text });
const gone = () => new AttemptError("connection refused", { retryable: true });
const plain = () => new Error("something went wrong");

/** A service that may be gone, with what was asked of it. */
function service(options: Partial<SearchQueueOptions> = {}, down: () => Error = plain) {
  const events: string[] = [];
  const state = {
    calls: [] as string[][],
    events,
    gone: false,
    /** Calls that still fail; then the service is back. */
    failing: 0,
    fails: (_query: string): boolean => false,
  };
  const retriever = {
    search: async (queries: readonly string[]) => {
      state.calls.push([...queries]);
      if (state.failing > 0 && --state.failing >= 0) throw down();
      if (state.gone || queries.some((query) => state.fails(query))) throw down();
      return queries.map((query) => [passage(query)]);
    },
  };
  const onOutage = (event: string) => events.push(event);
  const queue = new SearchQueue(retriever, { ...OPTIONS, onOutage, ...options });
  return {
    state,
    retriever,
    queue,
    ask: (...queries: string[]) => Promise.all(queries.map((q) => queue.search(q))),
  };
}

const found = (...queries: string[]) => queries.map((query) => ({ ok: true, passages: [passage(query)] }));

describe("an outage", () => {
  test.each([
    ["of which the errors say that it may pass", gone],
    ["of plain errors, by a service that has answered before", plain],
  ])("%s is waited for, and every search gets its passages", async (_name, down) => {
    const { state, queue, ask } = service({}, down);
    await ask("first");
    state.calls.length = 0;
    // The batch, the control query, a try.
    state.failing = 3;
    expect(await ask("a", "b", "c")).toEqual(found("a", "b", "c"));
    expect(state.events).toEqual(["begins", "goes on", "ends"]);
    expect(state.calls[0]).toEqual(["a", "b", "c"]);
    for (const [control, ...others] of state.calls.slice(1, 4)) {
      expect(control).toMatch(/^first \d+$/);
      expect(others).toEqual([]);
    }
    expect(state.calls.slice(4)).toEqual([["a", "b", "c"]]);
    expect(queue.statistics).toMatchObject({ searches: 4, failures: 0, outages: 1 });
    expect(queue.statistics.pausedMilliseconds).toBeGreaterThanOrEqual(90);
    expect(queue.outage).toBeUndefined();
  });

  test("lets nothing through but one try at a time, and tells how many wait", async () => {
    const { state, queue, ask } = service({ searchConcurrency: 4 });
    await ask("first");
    state.gone = true;
    const waiting = [ask("a"), ask("b", "c")];
    await expect.poll(() => queue.outage?.tries).toBeGreaterThanOrEqual(1);
    waiting.push(ask("d"));
    state.calls.length = 0;
    await expect.poll(() => state.calls.length).toBeGreaterThanOrEqual(2);
    for (const call of state.calls) expect(call).toEqual([expect.stringMatching(/^first \d+$/)]);
    expect(queue.outage).toMatchObject({ waiting: 4, reason: "something went wrong" });
    expect(Math.abs((queue.outage?.since ?? 0) - Date.now())).toBeLessThan(5_000);
    state.gone = false;
    expect((await Promise.all(waiting)).flat()).toEqual(found("a", "b", "c", "d"));
    expect(queue.statistics).toMatchObject({ outages: 1, failures: 0 });
  });

  test("is not hidden by a cache in front of the service", async () => {
    const cache = new Map<string, Passage[]>();
    let isGone = false;
    const search = async (queries: readonly string[]) => {
      for (const query of queries) {
        if (cache.has(query)) continue;
        if (isGone) throw plain();
        cache.set(query, [passage(query)]);
      }
      return queries.map((query) => cache.get(query) as Passage[]);
    };
    const queue = new SearchQueue({ search }, OPTIONS);
    await queue.search("first");
    isGone = true;
    const outcome = queue.search("a");
    await expect.poll(() => queue.outage?.tries).toBeGreaterThanOrEqual(1);
    isGone = false;
    expect(await outcome).toEqual(found("a")[0]);
  });

  test("at the very start is waited for if the errors say that it may pass; those that wait are tried in turn", async () => {
    const { state, queue, ask } = service({}, gone);
    state.gone = true;
    state.fails = (query) => query === "impossible";
    const outcomes = ask("impossible", "b", "c");
    await expect.poll(() => queue.outage?.tries).toBeGreaterThanOrEqual(1);
    state.gone = false;
    const [impossible, ...others] = await outcomes;
    expect(others).toEqual(found("b", "c"));
    expect(impossible).toMatchObject({ ok: false, error: { message: "connection refused" } });
    expect(queue.statistics).toMatchObject({ failures: 1, outages: 1 });
  });

  test("waits as long as the service asks for", async () => {
    const busy = () => new AttemptError("busy", { retryable: true, retryAfterMs: 400 });
    const { state, queue, ask } = service({}, busy);
    await ask("first");
    state.failing = 2;
    await ask("a");
    expect(queue.statistics.pausedMilliseconds).toBeGreaterThanOrEqual(395);
    expect(state.events).toEqual(["begins", "ends"]);
  });

  test("that lasts too long fails the searches; after that nothing is waited for", async () => {
    const { state, queue, ask } = service({ maxOutageMs: 200 });
    await ask("first");
    state.gone = true;
    for (const outcome of await ask("a", "b")) {
      expect(outcome).toMatchObject({
        ok: false,
        error: {
          code: "RETRIEVAL_FAILED",
          message: expect.stringMatching(/gone for 0\.[2-9] s, .*maxOutageMs.*something went wrong$/),
        },
      });
    }
    expect(state.events.at(-1)).toBe("ends");
    expect(queue.statistics).toMatchObject({ failures: 2, outages: 1 });
    const paused = queue.statistics.pausedMilliseconds;
    expect(paused).toBeGreaterThanOrEqual(200);
    expect(paused).toBeLessThan(4_000);
    expect(await ask("c")).toMatchObject([{ ok: false }]);
    expect(queue.statistics).toMatchObject({ failures: 3, outages: 1, pausedMilliseconds: paused });
    state.gone = false;
    expect(await ask("d")).toEqual(found("d"));
  });

  test("of a service that hangs is not waited for longer either", async () => {
    let hangs = false;
    const search = async (queries: readonly string[]) =>
      hangs ? new Promise<never>(() => {}) : queries.map((query) => [passage(query)]);
    const queue = new SearchQueue(
      { search },
      { ...OPTIONS, searchDeadline: 40, searchRetries: 0, maxOutageMs: 150 },
    );
    await queue.search("first");
    hangs = true;
    const started = performance.now();
    expect(await queue.search("a")).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining("No reply within 40 ms") },
    });
    expect(performance.now() - started).toBeLessThan(4_000);
  });

  test("an abort ends the wait at once", async () => {
    const controller = new AbortController();
    const { state, queue, ask } = service({ signal: controller.signal }, inAMinute);
    await ask("first");
    state.gone = true;
    const searches = ["a", "b"].map((query) => queue.search(query));
    await expect.poll(() => queue.outage?.waiting).toBe(2);
    controller.abort();
    for (const search of searches) await expect(search).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("an error of the one who is told of it is that of the searches", async () => {
    const mine = new RangeError("mine");
    const onOutage = () => {
      throw mine;
    };
    const { state, ask, queue } = service({ onOutage });
    await ask("first");
    state.gone = true;
    await expect(queue.search("a")).rejects.toBe(mine);
  });
});

describe("a query of which the service can make nothing", () => {
  test.each([gone, plain])("fails alone, without an outage (%o)", async (down) => {
    const { state, queue, ask } = service({}, down);
    state.fails = (query) => query === "bad";
    await ask("first");
    const [a, bad, c] = await ask("a", "bad", "c");
    expect([a, c]).toEqual(found("a", "c"));
    expect(bad).toMatchObject({ ok: false });
    expect(queue.statistics).toMatchObject({ failures: 1, outages: 0, pausedMilliseconds: 0 });
    expect(state.events).toEqual([]);
  });

  test("is asked again, and does not fail if what was wrong passes just then", async () => {
    const { state, queue, ask } = service();
    await ask("first");
    // Its own call alone; the control query is answered.
    state.failing = 1;
    expect(await ask("a")).toEqual(found("a"));
    expect(queue.statistics).toMatchObject({ failures: 0, outages: 0, calls: 4 });
  });

  test("waits for an outage that begins while it is asked again", async () => {
    const { state, queue, ask } = service();
    await ask("first");
    // Its own call fails, the control query is answered; then its second call fails and the control query too.
    state.fails = () => [2, 4, 5].includes(state.calls.length);
    expect(await ask("a")).toEqual(found("a"));
    expect(queue.statistics).toMatchObject({ failures: 0, outages: 1 });
  });
});

describe("never waited for", () => {
  const code = (name: HindsearchErrorCode) => () => new HindsearchError(name, "no");
  test.each<[string, () => unknown]>([
    ["a refused query", () => new AttemptError("status 400", { retryable: false, status: 400 })],
    [
      "a refusal inside another error",
      () =>
        new HindsearchError("RETRIEVAL_FAILED", "x", {
          cause: new AttemptError("403", { retryable: false }),
        }),
    ],
    [
      "an error of one's own that says so",
      () => Object.assign(new Error("no such field"), { retryable: false }),
    ],
    ["a closed retriever", code("DISPOSED")],
    ["a wrong argument", code("INVALID_ARGUMENT")],
    ["a missing package", code("DEPENDENCY_MISSING")],
    ["another index", code("INDEX_MISMATCH")],
  ])("%s", async (_name, down) => {
    const { state, queue, ask } = service({}, down as () => Error);
    await ask("first");
    state.gone = true;
    expect(await ask("a")).toMatchObject([{ ok: false }]);
    expect(queue.statistics).toMatchObject({ outages: 0, failures: 1, calls: 2 });
  });

  test("an answer in another form", async () => {
    let wrong = false;
    const search = async (queries: readonly string[]) =>
      (wrong ? "<html>" : queries.map((query) => [passage(query)])) as Passage[][];
    const queue = new SearchQueue({ search }, OPTIONS);
    await queue.search("first");
    wrong = true;
    expect(await queue.search("a")).toMatchObject({ ok: false });
    expect(queue.statistics).toMatchObject({ outages: 0, calls: 2 });
  });

  test("plain errors of a retriever that has never found anything", async () => {
    const { state, queue, ask } = service();
    state.gone = true;
    expect(await ask("a", "b")).toMatchObject([{ ok: false }, { ok: false }]);
    expect(queue.statistics.outages).toBe(0);
  });

  test("anything with the policy fail", async () => {
    const { state, queue, ask } = service({ outage: "fail" }, gone);
    await ask("first");
    state.gone = true;
    expect(await ask("a")).toMatchObject([{ ok: false }]);
    expect(queue.statistics).toMatchObject({ outages: 0, calls: 3 });
  });
});

test("a retriever's past is remembered from rollout to rollout", async () => {
  const { state, retriever, ask } = service();
  await ask("first");
  state.failing = 4;
  const next = new SearchQueue(retriever, OPTIONS);
  expect(await next.search("a")).toEqual(found("a")[0]);
  expect(next.statistics.outages).toBe(1);
});

test("which codes may pass at all", () => {
  const codes = Object.values(HindsearchErrorCode);
  const unsaid = codes.filter((code) => mayPass(new HindsearchError(code, "x")) === undefined);
  expect(unsaid.sort()).toEqual(["ABORTED", "IO", "RETRIEVAL_FAILED"]);
  for (const retryable of [true, false]) {
    expect(mayPass(new HindsearchError("RETRIEVAL_FAILED", "x", { retryable }))).toBe(retryable);
    expect(mayPass(new HindsearchError("DISPOSED", "x", { retryable }))).toBe(false);
  }
});

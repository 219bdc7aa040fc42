import { expect, test } from "vitest";
import { searchSettings } from "../../lib/agent/search-options.js";
import { SearchQueue, type SearchQueueOptions } from "../../lib/agent/search-queue.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";

const OPTIONS: SearchQueueOptions = {
  topK: 2,
  searchRetries: 1,
  searchDeadline: 5_000,
  searchConcurrency: 1,
  outage: "fail",
  maxOutageMs: 60_000,
};
const passage = (text: string): Passage => ({ id: text, title: "", text });

/** A retriever that records its calls and answers each query with its own words. */
function retriever(
  answer: (queries: readonly string[]) => unknown = (queries) => queries.map((q) => [passage(q)]),
) {
  const calls: string[][] = [];
  const search = async (queries: readonly string[]) => {
    calls.push([...queries]);
    return (await answer(queries)) as Passage[][];
  };
  return { calls, retriever: { search } satisfies Retriever };
}

test("searches of one moment leave in one call, and each gets its own passages", async () => {
  const { calls, retriever: engine } = retriever();
  const queue = new SearchQueue(engine, OPTIONS);
  const outcomes = await Promise.all(["a", "b", "a"].map((query) => queue.search(query)));
  expect(calls).toEqual([["a", "b", "a"]]);
  expect(outcomes).toEqual(["a", "b", "a"].map((text) => ({ ok: true, passages: [passage(text)] })));
});

test("while a call is under way the next queries gather", async () => {
  let open: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const { calls, retriever: engine } = retriever(async (queries) => {
    if (queries[0] === "first") await gate;
    return queries.map((q) => [passage(q)]);
  });
  const queue = new SearchQueue(engine, OPTIONS);
  const first = queue.search("first");
  await new Promise(setImmediate);
  const rest = [queue.search("b"), queue.search("c")];
  await new Promise(setImmediate);
  expect(calls).toEqual([["first"]]);
  open();
  await Promise.all([first, ...rest]);
  expect(calls).toEqual([["first"], ["b", "c"]]);
});

test("one bad query does not take its neighbours with it", async () => {
  const { calls, retriever: engine } = retriever((queries) => {
    if (queries.includes("bad")) throw new Error("cannot parse");
    return queries.map((q) => [passage(q)]);
  });
  const queue = new SearchQueue(engine, { ...OPTIONS, searchRetries: 2 });
  const outcomes = await Promise.all(["a", "bad", "c"].map((query) => queue.search(query)));
  expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true]);
  expect(outcomes[1]).toMatchObject({ error: { message: "cannot parse" } });
  expect(calls).toEqual([["a", "bad", "c"], ["a"], ["bad"], ["bad"], ["c"]]);
  expect(queue.statistics).toMatchObject({ searches: 3, failures: 1, calls: 5 });
});

test("an error that passes is retried away", async () => {
  let left = 1;
  const { retriever: engine } = retriever((queries) => {
    if (left-- > 0) throw new Error("busy");
    return queries.map((q) => [passage(q)]);
  });
  expect(await new SearchQueue(engine, OPTIONS).search("a")).toEqual({ ok: true, passages: [passage("a")] });
});

test("a retriever that never answers fails at the deadline", async () => {
  const { retriever: engine } = retriever(() => new Promise(() => {}));
  const queue = new SearchQueue(engine, { ...OPTIONS, searchRetries: 0, searchDeadline: 20 });
  const outcome = await queue.search("a");
  expect(outcome).toMatchObject({
    ok: false,
    error: { code: "RETRIEVAL_FAILED", message: "No reply within 20 ms." },
  });
});

test.each([
  ["too few lists", () => [[passage("a")]]],
  ["no lists", () => "<html>"],
  ["too many passages", () => [[], [passage("a"), passage("b"), passage("c")]]],
  ["a passage without text", () => [[], [{ id: "1", title: "x" }]]],
  ["null", () => [[], [null]]],
])("a reply with %s is a failure, not a result", async (_name, answer) => {
  const { retriever: engine } = retriever(answer);
  const queue = new SearchQueue(engine, { ...OPTIONS, searchRetries: 0 });
  const [, outcome] = await Promise.all([queue.search("a"), queue.search("b")]);
  expect(outcome).toMatchObject({ ok: false, error: { code: "RETRIEVAL_FAILED" } });
});

test("an abort rejects what is under way and what waits", async () => {
  const controller = new AbortController();
  const { retriever: engine } = retriever(() => new Promise(() => {}));
  const queue = new SearchQueue(engine, { ...OPTIONS, signal: controller.signal });
  const searches = [queue.search("a")];
  await new Promise(setImmediate);
  searches.push(queue.search("b"));
  controller.abort();
  for (const search of searches) await expect(search).rejects.toMatchObject({ code: "ABORTED" });
});

test("a passage is a copy of what a passage has, and nothing else", async () => {
  const own: Record<string, unknown> = { ...passage("x"), score: 5n, extra: 1 };
  own.self = own;
  const { retriever: engine } = retriever(() => [[own, { ...passage("y"), score: 0.5 }]]);
  expect(await new SearchQueue(engine, OPTIONS).search("q")).toEqual({
    ok: true,
    passages: [passage("x"), { ...passage("y"), score: 0.5 }],
  });
});

test("a retriever may do with the list of queries as it likes", async () => {
  const { retriever: engine } = retriever((queries) => {
    (queries as string[]).length = 0;
    return [];
  });
  const outcomes = await Promise.all(
    ["a", "b"].map((query) => new SearchQueue(engine, OPTIONS).search(query)),
  );
  expect(outcomes.map(({ ok }) => ok)).toEqual([false, false]);
});

test("a retriever that answers something else fails, with the reason", async () => {
  const broken: [unknown, RegExp][] = [
    [null, /object for 1 queries/],
    [[], /0 lists for 1 queries/],
    [["text"], /no list/],
    [[[1, 2, 3].map((n) => passage(`${n}`))], /no list of at most 2/],
    [[[null]], /without id, title and text/],
    [[[{ title: "a", text: "b" }]], /without id, title and text/],
    [[[{ id: "1", title: "a" }]], /without id, title and text/],
  ];
  for (const [answer, message] of broken) {
    const queue = new SearchQueue(retriever(() => answer).retriever, OPTIONS);
    expect(await queue.search("q")).toMatchObject({
      ok: false,
      error: { code: "RETRIEVAL_FAILED", message: expect.stringMatching(message) },
    });
  }
});

test("options that would never send or never end are refused, others get their defaults", () => {
  for (const wrong of [
    { searchConcurrency: 0 },
    { searchConcurrency: Number.NaN },
    { searchRetries: -1 },
    { searchDeadline: Number.POSITIVE_INFINITY },
    { searchDeadline: 2 ** 31 },
    { searchDeadline: 0 },
    { maxOutageMs: -1 },
    { maxOutageMs: 2 ** 31 },
    { maxFailedShare: 1.5 },
    { outage: "wait" as never },
  ]) {
    const [name] = Object.keys(wrong);
    expect(() => searchSettings(wrong)).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        message: expect.stringMatching(new RegExp(`^${name} is `)),
      }),
    );
  }
  const { searchRetries, ...others } = searchSettings({ searchRetries: 7 });
  expect(searchRetries).toBe(7);
  expect(others).toEqual({
    searchDeadline: 60_000,
    searchConcurrency: 2,
    outage: "pause",
    maxOutageMs: 3_600_000,
    maxFailedShare: 0.1,
  });
});

test("what an engine says when it fails is kept in one short line, without secrets", async () => {
  const { retriever: engine } = retriever(() => {
    throw new Error(
      `GET https://me:hunter2@host/q?api_key=0123456789&q=x\nAuthorization: Bearer abcdefghijkl\n${"x".repeat(1e6)}`,
    );
  });
  const outcome = await new SearchQueue(engine, { ...OPTIONS, searchRetries: 0 }).search("q");
  const message = outcome.ok ? "" : outcome.error.message;
  expect(message).toMatch(/^GET https:\/\/\[redacted\]@host\/q\?api_key=\[redacted\]&q=x Authorization: /);
  expect(message).not.toMatch(/hunter2|0123456789|abcdefghijkl/);
  expect(message.length).toBeLessThanOrEqual(501);
});

import { expect, test } from "vitest";
import type { Script } from "../support/scripted-decoder.js";
import { bound, END, engine, only, run, spans, tokenizer } from "../support/scripted-rollout.js";

test("answered", async () => {
  const trajectory = only(
    await run(({ turn }) =>
      turn === 0 ? "<think>hm</think><search> first one </search>tail" : "so <answer> Ada </answer>",
    ),
  );
  expect(trajectory).toMatchObject({ status: "answered", answer: "Ada", turns: 2, id: "0-0-0" });
  expect(spans(trajectory)).toEqual([
    "think:<think>hm</think>",
    "tag:<search>",
    "search: first one ",
    "tag:</search>",
    'observation:\n\n<information>Doc 1(Title: "T") about first one</information>\n\n',
    "think:so ",
    "tag:<answer>",
    "answer: Ada ",
    "tag:</answer>",
  ]);
  const [search] = trajectory.searches;
  expect(search).toMatchObject({ query: "first one", passages: [{ id: "first one" }] });
  expect(tokenizer.decode(trajectory.tokens.subarray(search?.start, search?.end))).toBe(" first one ");
  expect(trajectory.logProbs[0]).toBe(-("<".charCodeAt(0) + 1) / 1024);
});

test("no answer: an end token", async () => {
  const trajectory = only(await run(() => "I do not know.<|end|>"));
  expect(trajectory).toMatchObject({
    status: "no answer",
    answer: null,
    reason: "the policy wrote an end token",
  });
  expect(trajectory.tokens.at(-1)).toBe(END);
  expect(trajectory.spans).toEqual([{ start: 0, end: trajectory.tokens.length, kind: "think" }]);
});

test("no answer: the turns are used up, and the search of the last turn is not made", async () => {
  const queries: string[] = [];
  const search = (texts: readonly string[]) => {
    queries.push(...texts);
    return engine(texts);
  };
  const trajectory = only(
    await run(({ turn }) => `<search>q${turn}</search>`, {
      retriever: { search },
      protocol: bound({ maxSearches: 2 }),
    }),
  );
  expect(queries).toEqual(["q0", "q1"]);
  expect(trajectory).toMatchObject({ status: "no answer", reason: "the turns were used up", turns: 3 });
  expect(spans(trajectory).at(-1)).toBe("think:<search>q2</search>");
  expect(trajectory.searches.map(({ query }) => query)).toEqual(["q0", "q1"]);
});

test("an answer in the last turn counts", async () => {
  const protocol = bound({ maxSearches: 1 });
  const trajectory = only(
    await run(({ turn }) => (turn === 0 ? "<search>q</search>" : "<answer>A</answer>"), { protocol }),
  );
  expect(trajectory).toMatchObject({ status: "answered", answer: "A" });
});

test("a notice follows an invalid action, which uses a turn up", async () => {
  const protocol = bound({ maxSearches: 1 });
  const script: Script = ({ turn }) => (turn === 0 ? "oops </search>" : "<search>late</search>");
  const trajectory = only(await run(script, { protocol }));
  expect(trajectory).toMatchObject({ status: "no answer", turns: 2, searches: [] });
  expect(spans(trajectory)).toEqual([
    "think:oops </search>",
    "notice:\n[invalid]\n",
    "think:<search>late</search>",
  ]);
});

test("truncated: a turn is too long", async () => {
  const protocol = bound({ maxTurnTokens: 12 });
  const trajectory = only(await run(() => "a text without an end", { protocol }));
  expect(trajectory).toMatchObject({
    status: "truncated",
    reason: "a turn reached 12 tokens",
    answer: null,
  });
  expect(trajectory.tokens.length).toBe(12);
});

test("truncated: a closing tag that the limit cuts off is no action", async () => {
  const protocol = bound({ maxTurnTokens: "<answer>A</answe".length });
  expect(only(await run(() => "<answer>A</answer>", { protocol }))).toMatchObject({
    status: "truncated",
    answer: null,
  });
});

test("truncated: the context is full, before, in and after a turn", async () => {
  const prompt = bound().promptTokens("Who?").length;
  const search = "<search>q</search>";
  const context = async (room: number, script: Script = () => search) =>
    only(await run(script, { protocol: bound({ maxTokens: prompt + room }) }));

  const none = await context(0);
  expect(none).toMatchObject({ status: "truncated", reason: "the prompt fills the context", turns: 0 });
  expect([none.tokens.length, none.spans]).toEqual([0, []]);

  expect(await context(5)).toMatchObject({ status: "truncated", reason: "the context is full", turns: 1 });

  // The search was made and its result did not fit: it is not inserted, and not cut to fit either.
  const after = await context(search.length + 20);
  expect(after).toMatchObject({ status: "truncated", reason: "the context is full" });
  expect(after.tokens.length).toBe(search.length);
  expect(after.searches).toMatchObject([{ query: "q", passages: [{ id: "q" }] }]);

  expect(await context(20, () => "oops </search>")).toMatchObject({ status: "truncated", turns: 1 });
});

test("search failed", async () => {
  let calls = 0;
  const search = async () => {
    calls++;
    throw new Error("down");
  };
  const trajectory = only(
    await run(() => "<search>q</search>", { retriever: { search }, maxFailedShare: 1, searchRetries: 2 }),
  );
  expect(trajectory).toMatchObject({ status: "search failed", reason: "down", answer: null });
  expect(trajectory.searches).toMatchObject([{ query: "q", passages: [] }]);
  expect(calls).toBe(3);
});

import { appendFile, rename, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parseRowQuery } from "../../lib/dashboard/row-query.js";
import { TrajectoryIndex } from "../../lib/dashboard/trajectory-index.js";
import { trajectoryView } from "../../lib/dashboard/trajectory-view.js";
import { scratchFolder } from "../support/scratch-folder.js";
import { lines, recordOf } from "./run-files.js";

const scratch = scratchFolder();
let files = 0;

async function indexOf(records: readonly unknown[]) {
  const path = scratch(`${files++}.jsonl`);
  await writeFile(path, lines(records));
  const index = new TrajectoryIndex(path, 0.5);
  await index.update();
  return { path, index };
}

const ids = (index: TrajectoryIndex, query: string) =>
  index.page(parseRowQuery(new URLSearchParams(query)), 0, 100).rows.map(({ id }) => id);

/** Two groups: one with a right answer, one that fails as a whole. */
const RECORDS = [
  recordOf("0-0-0"),
  recordOf("0-0-1", { answer: "Ada Lovelace" }, { reward: 1, advantage: 1.5 }),
  recordOf("0-1-0", { status: "truncated", answer: null }, { critique: { status: "refused", reason: "no" } }),
  recordOf(
    "1-1-0",
    { searches: [1, 2].map(() => ({ query: "x", passages: [], start: 2, end: 4 })) },
    { critique: { status: "ok", text: "It was Ada LOVELACE." } },
  ),
  recordOf("1-1-1", { status: "search failed", answer: null }, { reward: null, advantage: null }),
];

test.each([
  ["", ["0-0-0", "0-0-1", "0-1-0", "1-1-0", "1-1-1"]],
  ["filter=failed", ["0-0-0", "0-1-0", "1-1-0"]],
  ["filter=correct", ["0-0-1"]],
  ["filter=all-fail", ["0-1-0", "1-1-0", "1-1-1"]],
  ["filter=mixed,failed", ["0-0-0"]],
  ["filter=leaked", ["1-1-0"]],
  ["filter=judge", ["0-1-0"]],
  ["filter=repeated", ["1-1-0"]],
  ["filter=found,failed", ["0-0-0", "0-1-0"]],
  ["filter=truncated", ["0-1-0"]],
  ["filter=outage", ["1-1-1"]],
  ["filter=constructor", ["0-0-0", "0-0-1", "0-1-0", "1-1-0", "1-1-1"]],
  ["order=last", ["1-1-1", "1-1-0", "0-1-0", "0-0-1", "0-0-0"]],
  ["order=searches&step=1", ["1-1-0", "1-1-1"]],
  ["order=advantage", ["0-0-1", "0-0-0", "0-1-0", "1-1-0", "1-1-1"]],
  ["order=disadvantage", ["0-0-0", "0-1-0", "1-1-0", "0-0-1", "1-1-1"]],
  ["text=BABBAGE&step=0", ["0-0-0"]],
  ["text=book 1", ["0-1-0", "1-1-0", "1-1-1"]],
])("%s", async (query, expected) => {
  const { index } = await indexOf(RECORDS);
  expect(ids(index, query)).toEqual(expected);
});

test("pages, and the place of a trajectory among those that match", async () => {
  const { index } = await indexOf(RECORDS);
  const query = parseRowQuery(new URLSearchParams("filter=failed"));
  expect(index.page(query, 1, 1, "1-1-0")).toMatchObject({
    total: 5,
    matched: 3,
    offset: 1,
    rows: [{ id: "0-1-0" }],
    located: 2,
    indexed: 1,
  });
  expect(index.page(query, 0, 10, "0-0-1").located).toBeNull();
  expect(index.siblings("1-1-1").map(({ id }) => id)).toEqual(["1-1-0", "1-1-1"]);
});

test("grows with the file, groups included, and starts anew when it is rewritten", async () => {
  const { path, index } = await indexOf([recordOf("0-0-0")]);
  expect(ids(index, "filter=all-fail")).toEqual(["0-0-0"]);
  await appendFile(path, lines([recordOf("0-0-1", {}, { reward: 1 })]));
  await index.update();
  expect(ids(index, "filter=all-fail")).toEqual([]);
  expect(ids(index, "filter=mixed")).toEqual(["0-0-0", "0-0-1"]);
  await writeFile(`${path}.new`, lines([recordOf("7-0-0")]));
  await rename(`${path}.new`, path);
  await expect(index.line("0-0-1")).rejects.toMatchObject({ code: "INVALID_DATA" });
  await index.update();
  expect(ids(index, "")).toEqual(["7-0-0"]);
  expect(await index.line("0-0-1")).toBeUndefined();
});

test("lines that are no trajectories are counted and change nothing", async () => {
  const { path, index } = await indexOf([]);
  const bad = [
    "not JSON",
    "null",
    "[]",
    '{"id":"0-0-0"}',
    JSON.stringify({ ...recordOf("0-0-0"), step: -1 }),
    JSON.stringify({ ...recordOf("0-0-0"), searches: [{ query: 7 }] }),
    '{"__proto__":{"polluted":true}}',
    "\u0000\u0001",
  ];
  await writeFile(path, `${bad.join("\n")}\n${lines([recordOf("0-0-0"), recordOf("0-0-0")])}`);
  await index.update();
  expect(ids(index, "")).toEqual(["0-0-0"]);
  expect(index.unreadable).toBe(bad.length + 1);
  expect({}).not.toHaveProperty("polluted");
});

test("what a line lacks or has damaged beside the trajectory is left out", async () => {
  const { index } = await indexOf([
    { ...recordOf("0-0-0"), signal: { weights: "many" }, critique: 7, reward: "high", pieces: 3 },
  ]);
  const found = await index.line("0-0-0");
  const view = trajectoryView(found?.json, (found as NonNullable<typeof found>).row, []);
  expect(view.row).toMatchObject({ reward: null, weight: null, critique: "unreadable", outcome: "unscored" });
  expect(view).toMatchObject({ hasTexts: false, critique: { status: "unreadable" } });
});

test("the view of a trajectory: turns, tokens with their figures, gold and leaks marked", async () => {
  const { index } = await indexOf([
    recordOf(
      "0-0-0",
      {},
      { critique: { status: "ok", text: "Not Babbage but Ada Lovelace, I say.", raw: "raw" } },
    ),
  ]);
  const found = (await index.line("0-0-0")) as NonNullable<Awaited<ReturnType<typeof index.line>>>;
  const view = trajectoryView(found.json, found.row, index.siblings("0-0-0"));
  const [first, second] = view.turns;
  expect(view.turns.map((parts) => parts.map(({ kind }) => kind))).toEqual([
    ["think", "tag", "search", "tag", "observation"],
    ["think", "answer", "tag"],
  ]);
  expect(first?.[0]).toEqual({ kind: "think", text: " w100", tokens: null });
  const search = first?.[2];
  expect(search).toMatchObject({ kind: "search", query: ["book author"], repeated: false });
  if (search?.kind !== "search") throw new Error("no search");
  // Student log-probs of tokens 2 and 3 are -3/8 and -4/8.
  expect(search.tokens).toEqual([
    { text: " w102", id: 102, student: -0.375, teacher: -0.125, reference: -0.5, weight: 0.25 },
    { text: " w103", id: 103, student: -0.5, teacher: -1, reference: -0.75, weight: 0 },
  ]);
  expect(search.passages).toEqual([
    {
      id: "p1",
      title: ["A book"],
      text: ["It was written by ", "Ada Lovelace", " in 1843."],
      score: 7.5,
      gold: true,
    },
  ]);
  expect(second?.[1]).toEqual({ kind: "answer", text: " w107", tokens: null });
  expect(view.critique).toEqual({
    status: "ok",
    text: ["Not Babbage but ", "Ada Lovelace", ", I say."],
    raw: "raw",
  });
  expect(view.row).toMatchObject({ leaked: "critique", found: true, failed: true, weight: 0.125 });
});

test("a megabyte in every text is cut, and says so", async () => {
  const huge = "x".repeat(2 ** 20);
  const { index } = await indexOf([
    recordOf("0-0-0", {
      question: { id: huge, question: huge, goldAnswers: [huge] },
      answer: huge,
      reason: huge,
    }),
  ]);
  const found = (await index.line("0-0-0")) as NonNullable<Awaited<ReturnType<typeof index.line>>>;
  expect(JSON.stringify(found.row).length).toBeLessThan(2_000);
  const view = JSON.stringify(trajectoryView(found.json, found.row, []));
  expect(view.length).toBeLessThan(200_000);
  expect(view).toContain("1028576 more characters");
});

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TINY_RETRIEVER } from "../../examples/own-loop/tiny-world.js";
import { FunctionJudge } from "../../lib/judge/function-judge.js";
import type { Judge } from "../../lib/judge/judge.js";
import { recordedJudge } from "../../lib/replay/recorded-judge.js";
import { recordedRetriever } from "../../lib/replay/recorded-retriever.js";
import { ReplayCache, type ReplayMode } from "../../lib/replay/replay-cache.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { marked } from "../judge/chat-service.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import type { ReceivedRequest } from "../support/loopback-server.js";
import { OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";
import { timeless } from "../training/timeless.js";

const { scratch, fresh, train } = tinyTrainer();
let records: string;
beforeEach(async () => {
  records = await mkdtemp(join(tmpdir(), "hindsearch-records-"));
});
afterEach(() => rm(records, { recursive: true, force: true }));

const COLOURS = ["red", "blue", "pink", "grey"];
let says = 0;
/** Never says the same twice in a row, whoever asks: without records no run is like another. */
const fickleJudge: Judge = {
  identity: "fickle",
  critique: async ({ question }) =>
    ++says % 5 === 0
      ? { status: "failed", reason: "the server was away" }
      : { status: "ok", text: `${question.split(" ")[2]} ${COLOURS[says % 4]}` },
};
const unreachable: Judge & Retriever = {
  identity: "fickle",
  critique: () => Promise.reject(new Error("asked")),
  search: () => Promise.reject(new Error("asked")),
};

function participants(mode: ReplayMode, judge: Judge, retriever: Retriever): Partial<HindSearchOptions> {
  const cache = new ReplayCache({ folder: records, mode });
  return {
    judge: recordedJudge(judge, cache),
    retriever: recordedRetriever(retriever, cache, { identity: "tiny" }),
    steps: 6,
    onWarning: () => {},
  };
}

/** Trains in three processes' stead: stopped behind some steps, each time with a judge and a cache of its own. */
async function interrupted(options: () => Partial<HindSearchOptions>, runFolder: string) {
  for (const last of [1, 3]) {
    const policy = await fresh();
    const trainer = new HindSearchTrainer({ ...OPTIONS, ...options(), runFolder, resume: true, policy });
    for await (const { step } of trainer) if (step === last) break;
  }
  return train({ ...options(), runFolder, resume: true });
}

test.each(["record", "replay-else-record"] as const)(
  "a run that was recorded (%s) over interruptions is replayed without a call, bit for bit",
  async (mode) => {
    const runFolder = scratch(`recorded-${mode}`);
    // Steps behind a checkpoint are made again too: their answers were recorded, and stand.
    const options = () => ({ ...participants(mode, fickleJudge, TINY_RETRIEVER), checkpointEvery: 3 });
    const recorded = await interrupted(options, runFolder);
    const replayed = await train(participants("replay", unreachable, unreachable));
    expect(replayed.weights).toEqual(recorded.weights);
    const total = replayed.results.at(-1)?.metrics.judge?.total;
    expect(total?.calls).toBeGreaterThan(20);
    expect(total?.cacheHits).toBe(total?.calls);
    expect(total?.failures.failed).toBeGreaterThan(0);

    // And it is the records that do it: a run recorded anew is another one.
    const anew = await train(participants("record", fickleJudge, TINY_RETRIEVER));
    expect(anew.weights).not.toEqual(recorded.weights);
  },
);

test("what a judge has counted and used up is that of the whole run: a budget is not granted again", async () => {
  const judged = (budget?: { tokens: number }) => () => ({
    judge: new FunctionJudge({
      complete: async (messages) => {
        const [, entity = ""] = /colour of (\w+)/.exec(messages.at(-1)?.content ?? "") ?? [];
        return marked({ body: { messages } } as ReceivedRequest, `look for the colour of ${entity}`);
      },
      tokenizer: byteTokenizer(),
      budget,
    }),
    steps: 6,
    onWarning: () => {},
  });
  const whole = await train(judged()());
  const resumed = await interrupted(judged(), scratch("counted"));
  const figures = ({ results }: typeof whole) => results.slice(-2).map(({ metrics }) => metrics.judge);
  expect(timeless(figures(resumed))).toEqual(timeless(figures(whole)));
  expect(resumed.weights).toEqual(whole.weights);
  const all = whole.results.at(-1)?.metrics.judge?.total;
  expect(all?.ok).toBeGreaterThan(20);

  const tokens = Math.round(((all?.usage.promptTokens ?? 0) + (all?.usage.completionTokens ?? 0)) / 2);
  const short = await interrupted(judged({ tokens }), scratch("spent"));
  const total = short.results.at(-1)?.metrics.judge?.total;
  expect(total?.failures["budget-spent"]).toBeGreaterThan(0);
  expect((total?.usage.promptTokens ?? 0) + (total?.usage.completionTokens ?? 0)).toBeLessThanOrEqual(tokens);
});

test("a judge that is another than before begins anew, and that is said", async () => {
  const runFolder = scratch("another");
  const policy = await fresh();
  const options = { ...participants("record", fickleJudge, TINY_RETRIEVER), runFolder, resume: true };
  for await (const { step } of new HindSearchTrainer({ ...OPTIONS, ...options, policy }))
    if (step === 1) break;
  const warnings: string[] = [];
  const judge = new FunctionJudge({ complete: async () => "", tokenizer: byteTokenizer() });
  await train({ steps: 3, judge, runFolder, resume: true, onWarning: (text) => warnings.push(text) });
  expect(warnings.join("\n")).toMatch(/participants\.judge was "RecordedJudge" and is "FunctionJudge"/);
  const own = (await readFile(join(runFolder, "metrics.jsonl"), "utf8")).trim().split("\n");
  expect(judge.stats().calls).toBe(JSON.parse(own.at(-1) as string).judge.calls);
});

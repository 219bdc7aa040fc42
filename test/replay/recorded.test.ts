import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TINY_RETRIEVER } from "../../examples/own-loop/tiny-world.js";
import { rememberAnswered } from "../../lib/agent/outage.js";
import { ChatJudge } from "../../lib/judge/chat.js";
import type { Critique } from "../../lib/judge/critique.js";
import { JudgeEnsemble } from "../../lib/judge/ensemble.js";
import type { Judge } from "../../lib/judge/judge.js";
import { recordedJudge } from "../../lib/replay/recorded-judge.js";
import { recordedRetriever } from "../../lib/replay/recorded-retriever.js";
import { ReplayCache, type ReplayMode } from "../../lib/replay/replay-cache.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { formatContents } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { completion, INPUT, KEY, marked, TEXT } from "../judge/chat-service.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { connectionsOf } from "../support/connections.js";
import { Interruptible } from "../support/interruptible.js";
import { LoopbackServer, sendJson } from "../support/loopback-server.js";
import { tinyTrainer } from "../support/tiny-trainer.js";
import { timeless } from "../training/timeless.js";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-replay-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));
const cacheOf = (mode: ReplayMode) => new ReplayCache({ folder, mode });

describe("recordedJudge", () => {
  const judgeThat = (...says: Critique[]): Judge & { asked: number } => ({
    asked: 0,
    identity: "scripted",
    async critique() {
      return says[Math.min(this.asked++, says.length - 1)] as Critique;
    },
  });
  const ok: Critique = { status: "ok", text: TEXT };
  const refused: Critique = { status: "refused", reason: "no" };
  const failed: Critique = { status: "failed", reason: "outage" };

  test("replays critiques and failures", async () => {
    const recorder = recordedJudge(judgeThat(ok, refused, failed), cacheOf("record"));
    const inputs = ["a", "b", "c"].map((answer) => ({ ...INPUT, answer }));
    const said = [];
    for (const input of inputs) said.push(await recorder.critique(input));
    expect(said).toEqual([ok, refused, failed]);
    const silent = judgeThat(ok);
    const replayer = recordedJudge(silent, cacheOf("replay"));
    expect(await Promise.all(inputs.map((input) => replayer.critique(input)))).toEqual(said);
    expect(silent.asked).toBe(0);
    expect(replayer.stats()).toMatchObject({
      calls: 3,
      ok: 1,
      cacheHits: 3,
      failures: { refused: 1, failed: 1 },
    });
  });

  test("asks again for a failure of the moment, and only for that", async () => {
    const recorder = recordedJudge(judgeThat(failed), cacheOf("record"));
    await recorder.critique(INPUT);
    await recordedJudge(judgeThat(refused), cacheOf("record")).critique({ ...INPUT, answer: "b" });
    const resumed = recordedJudge(judgeThat(ok), cacheOf("replay-else-record"));
    expect(await resumed.critique(INPUT)).toEqual(ok);
    expect(await resumed.critique({ ...INPUT, answer: "b" })).toEqual(refused);
  });

  test("without a record a replay fails, and says so", async () => {
    const replayer = recordedJudge(judgeThat(ok), cacheOf("replay"));
    expect(await replayer.critique(INPUT)).toMatchObject({ status: "failed", reason: /no record/ as never });
  });

  test("keeps records apart by all that a critique depends on, and not by what it does not", async () => {
    await recordedJudge(judgeThat(ok), cacheOf("record")).critique(INPUT);
    const replay = (judge: Partial<Judge>, input = INPUT) =>
      recordedJudge({ ...judgeThat(refused), ...judge }, cacheOf("replay")).critique(input);
    const [step] = INPUT.steps;
    const [passage] = step?.passages ?? [];
    if (step === undefined || passage === undefined) throw new Error("the input has a step with a passage");
    const withPassage = (change: object) => ({
      ...INPUT,
      steps: [{ ...step, passages: [{ ...passage, ...change }] }],
    });
    expect(await replay({})).toEqual(ok);
    expect(await replay({}, withPassage({ id: "other", score: 7 }))).toEqual(ok);
    const others = [
      replay({ identity: "another" }),
      replay({}, { ...INPUT, question: "Who?" }),
      replay({}, { ...INPUT, goldAnswers: null }),
      replay({}, { ...INPUT, answer: null }),
      replay({}, withPassage({ text: "Another text." })),
      replay({}, { ...INPUT, steps: [{ ...step, reasoning: "I think." }] }),
    ];
    for (const other of await Promise.all(others)) expect(other.status).toBe("failed");
  });

  test("a judge without identity needs one", async () => {
    const nameless = { critique: async () => ok };
    expect(() => recordedJudge(nameless, cacheOf("record"))).toThrow(/identity/);
    expect(() => recordedJudge(new JudgeEnsemble([nameless]), cacheOf("record"))).toThrow(
      /JudgeEnsemble.*identity/,
    );
    expect(await recordedJudge(nameless, cacheOf("record"), { identity: "n" }).critique(INPUT)).toEqual(ok);
  });

  test("an abort ends one caller and not the other", async () => {
    const stop = new AbortController();
    let release: (critique: Critique) => void = () => undefined;
    let asked = 0;
    const slow: Judge = {
      identity: "slow",
      critique: (_input, { signal } = {}) =>
        new Promise((resolve, reject) => {
          asked++;
          release = resolve;
          signal?.addEventListener("abort", () => reject(signal.reason));
        }),
    };
    const judge = recordedJudge(slow, cacheOf("record"));
    const aborted = judge.critique(INPUT, { signal: stop.signal });
    const other = judge.critique(INPUT);
    await expect.poll(() => asked).toBe(1);
    stop.abort();
    await expect(aborted).rejects.toBeDefined();
    await expect.poll(() => asked).toBe(2);
    release(ok);
    expect(await other).toEqual(ok);
  });
});

describe("recordedRetriever", () => {
  test("replays passages with their scores, query by query", async () => {
    const identity = { identity: "tiny" };
    const recorded = await recordedRetriever(TINY_RETRIEVER, cacheOf("record"), identity).search(
      ["ann", "bob", ""],
      2,
    );
    const closed: Retriever = { search: () => Promise.reject(new Error("asked")) };
    const replayer = recordedRetriever(closed, cacheOf("replay"), identity);
    expect(await replayer.search(["", "bob"], 2)).toEqual([recorded[2], recorded[1]]);
    expect(recorded[0]).not.toHaveLength(0);
    await expect(replayer.search(["ann", "cat"], 2)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    await expect(replayer.search(["ann"], 1)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    const other = recordedRetriever(closed, cacheOf("replay"), { identity: "other" });
    await expect(other.search(["ann"], 2)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
  });

  test("failed searches are not recorded", async () => {
    const failing: Retriever = { search: () => Promise.reject(new Error("outage")) };
    const judge = recordedRetriever(failing, cacheOf("record"), { identity: "x" });
    await expect(judge.search(["ann"], 1)).rejects.toThrow("outage");
    expect(await readdir(folder)).toEqual([]);
    // In a replay such a query fails again, for good: nobody waits for a record to come.
    const replayer = recordedRetriever(TINY_RETRIEVER, cacheOf("replay"), { identity: "x" });
    await expect(replayer.search(["ann"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      retryable: false,
    });
  });

  test("without identity is refused", () => {
    expect(() => recordedRetriever(TINY_RETRIEVER, cacheOf("record"), { identity: "" })).toThrow(/identity/);
  });
});

describe("a run", () => {
  const { train } = tinyTrainer();

  test("that sat out an outage is replayed as one without", async () => {
    const run = (engine: Retriever, mode: ReplayMode) => {
      const retriever = recordedRetriever(engine, cacheOf(mode), { identity: "tiny" });
      rememberAnswered(retriever, "ann");
      return train({ steps: 1, retriever, onWarning: () => {} });
    };
    const flaky = new Interruptible(TINY_RETRIEVER, { after: 0, milliseconds: 400 });
    const recorded = await run(flaky, "record");
    expect(recorded.results[0]?.metrics.rollout).toMatchObject({ searchOutages: 1, searchFailures: 0 });
    const closed: Retriever = { search: () => Promise.reject(new Error("asked")) };
    const replayed = await run(closed, "replay");
    expect(replayed.results[0]?.metrics.rollout).toMatchObject({ searchOutages: 0, searchFailures: 0 });
    expect(replayed.weights).toEqual(recorded.weights);
  });

  test("is replayed without a request, bit for bit", async () => {
    let says = 0;
    await using server = await LoopbackServer.start(async (request, response) => {
      if (request.path === "/retrieve") {
        const found = await TINY_RETRIEVER.search(request.body.queries, request.body.topk);
        const result = found.map((passages) =>
          passages.map(({ id, score, ...passage }) => ({
            document: { id, contents: formatContents(passage) },
            score,
          })),
        );
        return sendJson(response, { result });
      }
      // A judge that never says the same twice, and fails now and then.
      const [, entity] = request.body.messages[1].content.match(/colour of (\w+)/);
      if (++says % 7 === 0) return sendJson(response, completion("I forgot the marks."));
      sendJson(response, completion(marked(request, `colour of ${entity} number ${says} of ${KEY}`)));
    });
    const run = async (mode: ReplayMode) => {
      const cache = cacheOf(mode);
      const judge = new ChatJudge({
        baseURL: `${server.origin}/v1`,
        model: "judge",
        apiKey: KEY,
        tokenizer: byteTokenizer(),
        temperature: 1,
        structured: "never",
      });
      const http = new HttpRetriever({ url: `${server.origin}/retrieve` });
      const retriever = recordedRetriever(http, cache, { identity: "tiny" });
      const { results, weights } = await train({ steps: 2, judge: recordedJudge(judge, cache), retriever });
      await retriever.close?.();
      return { results, weights };
    };
    const { result: recorded, connections: opened } = await connectionsOf(() => run("record"));
    expect(opened).toBeGreaterThanOrEqual(2);
    const asked = server.requests.length;
    expect(asked).toBeGreaterThan(10);
    const { result: replayed, connections } = await connectionsOf(() => run("replay"));
    expect(connections).toBe(0);
    expect(server.requests.length).toBe(asked);
    expect(replayed.weights).toEqual(recorded.weights);
    const trajectories = ({ results }: typeof recorded) => timeless(results.map(({ groups }) => groups));
    expect(trajectories(replayed)).toEqual(trajectories(recorded));
    const total = replayed.results.at(-1)?.metrics.judge?.total;
    expect(total?.cacheHits).toBe(total?.calls);
    expect(total?.failures.unparsable).toBeGreaterThan(0);
    // And one that is not: the judge alone made the difference, so its records do matter.
    const anew = await run("record");
    expect(anew.weights).not.toEqual(recorded.weights);

    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    for (const entry of entries.filter((one) => one.isFile())) {
      expect(await readFile(join(entry.parentPath, entry.name), "utf8")).not.toContain(KEY);
    }
  });
});

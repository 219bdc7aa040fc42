import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { TINY_RETRIEVER } from "../../examples/own-loop/tiny-world.js";
import { sleep } from "../../lib/abort.js";
import { rememberAnswered } from "../../lib/agent/outage.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { serveRetriever } from "../../lib/retrieval/server/server.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import type { TrainingProgress } from "../../lib/training/progress.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { Interruptible, inAMinute } from "../support/interruptible.js";
import { allWeights, tinyTrainer } from "../support/tiny-trainer.js";
import { timeless } from "./timeless.js";

const { fresh, train } = tinyTrainer();
const QUESTIONS = [
  { id: "a", question: "colour of ann ? .", goldAnswers: ["red"] },
  { id: "b", question: "colour of bob ? .", goldAnswers: ["blue"] },
];
const EVALUATED = {
  steps: 2,
  evaluation: { questions: QUESTIONS, every: 1, modes: ["sampled"] },
} satisfies Partial<HindSearchOptions>;

/** Everything but times, and what is counted of searches. */
const essence = (results: TrainingStepResult[]) =>
  JSON.parse(JSON.stringify(timeless(results)), (key, value) =>
    key === "searchOutages" ? undefined : value,
  );
const paused = ({ metrics: { rollout } }: TrainingStepResult) => rollout.searchOutages;

describe("an outage that passes", () => {
  test("changes neither a weight nor a number; it is told, counted and timed", async () => {
    const undisturbed = await train(EVALUATED);
    const warnings: string[] = [];
    const events: TrainingProgress[] = [];
    // It begins with the first search behind the first evaluation, whatever that has asked.
    let [isDue, until] = [false, 0];
    const search: Retriever["search"] = async (...call) => {
      if (isDue) [isDue, until] = [false, performance.now() + 400];
      if (performance.now() < until) throw new Error("service unavailable");
      return TINY_RETRIEVER.search(...call);
    };
    const disturbed = await train({
      ...EVALUATED,
      retriever: { search },
      onWarning: (warning) => warnings.push(warning),
      onProgress: (progress) => {
        events.push(progress);
        if (progress.phase === "evaluation" && progress.done === progress.total) isDue = until === 0;
      },
    });
    expect(disturbed.weights).toEqual(undisturbed.weights);
    expect(essence(disturbed.results)).toEqual(essence(undisturbed.results));
    expect(warnings).toEqual([
      expect.stringMatching(/^The search service does not answer\..*service unavailable$/),
    ]);
    expect(disturbed.results.map(paused)).toEqual([1, 0]);
    const { rollout, milliseconds } = disturbed.results[0]?.metrics ?? {};
    expect(rollout?.searchPausedMilliseconds).toBeGreaterThan(50);
    expect(rollout?.searchPausedMilliseconds).toBeLessThan(milliseconds?.rollout ?? 0);
    expect(rollout).toMatchObject({ searchFailures: 0, statuses: { "search failed": 0 } });
    const during = events.filter(({ outage }) => outage !== undefined);
    expect(during.length).toBeGreaterThan(0);
    for (const event of during) expect(event).toMatchObject({ step: 0, phase: "rollout" });
    expect(undisturbed.results.map(paused)).toEqual([0, 0]);
  });

  test("of a real server, which is killed and started again behind its client", async () => {
    const undisturbed = await train({ steps: 2 });
    // The port is kept, as a service keeps its own.
    const port = await freePort();
    let [asked, restart] = [0, Promise.resolve()];
    const kill = async () => {
      await server.close();
      await sleep(400, undefined);
      server = await serveRetriever(TINY_RETRIEVER, { port });
    };
    const search: Retriever["search"] = async (...call) => {
      // In the middle of the second request.
      if (++asked === 2) restart = kill();
      return TINY_RETRIEVER.search(...call);
    };
    let server = await serveRetriever({ search }, { port, graceMs: 0 });
    onTestFinished(() => server.close());
    const retriever = new HttpRetriever({
      url: `${server.url}/retrieve`,
      retries: 1,
      baseDelayMs: 5,
      breakerFailures: 2,
      breakerOpenMs: 100,
    });
    onTestFinished(() => retriever.close());
    const warnings: string[] = [];
    const disturbed = await train({ steps: 2, retriever, onWarning: (warning) => warnings.push(warning) });
    await restart;
    expect(disturbed.weights).toEqual(undisturbed.weights);
    expect(warnings.length).toBeGreaterThanOrEqual(1);
    expect(warnings[0]).toMatch(/connection failed|status 503/);
    expect(
      disturbed.results.flatMap(({ groups }) => groups.flat()).map(({ reward }) => reward),
    ).not.toContain(null);
    expect(retriever.stats().breaker).toMatchObject({ state: "closed", opened: 1 });
  });
});

describe("an outage that does not pass", () => {
  const lasting = (error?: () => Error) => {
    const retriever = new Interruptible(
      TINY_RETRIEVER,
      { after: 0, failures: Number.POSITIVE_INFINITY },
      error,
    );
    rememberAnswered(retriever, "ann");
    return retriever;
  };

  test("ends the run when the time is over, with its reason, and leaves the policy alone", async () => {
    const policy = await fresh();
    const before = await allWeights(policy);
    const run = train({ policy, retriever: lasting(), search: { maxOutageMs: 150 }, onWarning: () => {} });
    await expect(run).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/maxOutageMs.*service unavailable/s),
    });
    expect(await allWeights(policy)).toEqual(before);
  });

  test("gives lost trajectories no reward where they are allowed", async () => {
    const { results } = await train({
      steps: 1,
      retriever: lasting(),
      search: { maxOutageMs: 150, maxFailedShare: 1 },
      onWarning: () => {},
    });
    const samples = results[0]?.groups.flat() ?? [];
    const lost = samples.filter(({ trajectory }) => trajectory.status === "search failed");
    expect(lost.length).toBeGreaterThan(0);
    for (const { reward, advantage, critique } of lost)
      expect([reward, advantage, critique]).toEqual([null, null, undefined]);
    expect(results[0]?.metrics.rollout).toMatchObject({ searchFailures: lost.length, searchOutages: 1 });
  });

  test("ends at once with an abort", async () => {
    const controller = new AbortController();
    const run = train({
      retriever: lasting(inAMinute),
      signal: controller.signal,
      onWarning: () => setTimeout(() => controller.abort(), 50),
    });
    await expect(run).rejects.toMatchObject({ code: "ABORTED" });
  });
});

function freePort(): Promise<number> {
  return new Promise((found) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => found(port));
    });
  });
}

import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import type { MetricPoint, MetricSink } from "../../lib/runs/sinks/metric-sink.js";
import { MlflowSink } from "../../lib/runs/sinks/mlflow.js";
import { OpenTelemetrySink } from "../../lib/runs/sinks/open-telemetry.js";
import { PrometheusSink } from "../../lib/runs/sinks/prometheus.js";
import { TensorBoardSink } from "../../lib/runs/sinks/tensorboard.js";
import { WebhookSink } from "../../lib/runs/sinks/webhook.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { readEvents } from "../runs/sinks/event-reader.js";
import { OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";

const { scratch, fresh, train } = tinyTrainer();
const evaluation = {
  questions: [{ id: "q", question: "colour of ann of ann ?", goldAnswers: ["red"] }],
  every: 2,
};

/** Keeps what it is told. */
function keeper() {
  const points: MetricPoint[] = [];
  const told: string[] = [];
  const sink: MetricSink = {
    name: "keeper",
    start: async ({ name, step }) => void told.push(`start ${name} ${step}`),
    write: async (batch) => void points.push(...batch),
    end: async (outcome) => void told.push(`end ${outcome}`),
  };
  return { sink, points, told };
}

test("a sink gets the numbers of every step and evaluation, and hears how the run ended", async () => {
  const { sink, points, told } = keeper();
  const { results } = await train({ runFolder: scratch("kept"), steps: 3, sinks: [sink], evaluation });
  const values = (name: string) =>
    points.filter((point) => point.name === name).map(({ step, value }) => [step, value]);
  expect(values("rollout/reward")).toEqual(
    results.map(({ step, metrics }) => [step + 1, metrics.rollout.reward]),
  );
  const evaluations = results.flatMap((result) => result.evaluations);
  expect(values("evaluation/greedy/f1")).toEqual(
    evaluations.map(({ stepsDone, report }) => [stepsDone, report.f1]),
  );
  expect(evaluations.map(({ stepsDone }) => stepsDone)).toEqual([0, 2, 3]);
  expect(told).toEqual(["start kept 0", "end finished"]);

  const stopped = keeper();
  const trainer = new HindSearchTrainer({ ...OPTIONS, sinks: [stopped.sink], policy: await fresh() });
  for await (const _ of trainer) break;
  expect(stopped.told.at(-1)).toBe("end stopped");
  const asked = keeper();
  const finish = AbortSignal.abort();
  await train({ sinks: [asked.sink], finish });
  expect(asked.told.at(-1)).toBe("end stopped");
  const failed = keeper();
  const reward = {
    name: "broken",
    score: () => {
      throw new Error("no reward");
    },
  };
  await expect(train({ sinks: [failed.sink], reward })).rejects.toThrow("no reward");
  expect(failed.told).toEqual(["end failed"]);
});

test("TensorBoard's files of a run and its resume hold every step once, as its reader sees them", async () => {
  const runFolder = scratch("board");
  const options = { runFolder, steps: 4, checkpointEvery: 2, evaluation };
  const first = new HindSearchTrainer({
    ...OPTIONS,
    ...options,
    sinks: [new TensorBoardSink()],
    policy: await fresh(),
  });
  for await (const { step } of first) if (step === 2) break;
  await train({ ...options, resume: true, sinks: [new TensorBoardSink()] });
  const seen = new Map<string, Map<number, number>>();
  const files = (await readdir(scratch("board", "tensorboard"))).sort();
  expect(files.length).toBe(2);
  for (const file of files) {
    for (const { step = 0, sessionStart, scalars = [] } of readEvents(
      await readFile(scratch("board", "tensorboard", file)),
    ).events) {
      if (sessionStart)
        for (const steps of seen.values())
          for (const old of [...steps.keys()]) if (old >= step) steps.delete(old);
      for (const { tag, value } of scalars) {
        const steps = seen.get(tag) ?? new Map();
        expect(steps.has(step)).toBe(false);
        seen.set(tag, steps.set(step, value));
      }
    }
  }
  expect([...(seen.get("rollout/reward")?.keys() ?? [])]).toEqual([1, 2, 3, 4]);
  expect([...(seen.get("evaluation/greedy/exactMatch")?.keys() ?? [])]).toEqual([0, 2, 4]);
});

test("sinks that hang, throw and refuse change no bit, hold nothing up, and are reported", async () => {
  const plain = await train({ steps: 6 });
  const hanging = createServer(() => {});
  await new Promise<void>((ready) => hanging.listen(0, "127.0.0.1", ready));
  const { port } = hanging.address() as { port: number };
  const url = `http://127.0.0.1:${port}`;
  const warnings: string[] = [];
  const sinks: MetricSink[] = [
    { name: "never", write: () => new Promise(() => {}) },
    {
      name: "thrower",
      write: () => {
        throw new Error("thrown");
      },
    },
    new WebhookSink({ url }),
    new MlflowSink({ url }),
    new OpenTelemetrySink({ url: "http://127.0.0.1:9/v1/metrics" }),
    new PrometheusSink({ port }),
  ];
  const policy = await fresh();
  const times: number[] = [];
  let before = performance.now();
  const trainer = new HindSearchTrainer({
    ...OPTIONS,
    steps: 6,
    policy,
    sinks,
    onWarning: (text) => warnings.push(text),
  });
  for await (const { step } of trainer) {
    times.push(performance.now() - before);
    before = performance.now();
    expect(step).toBe(times.length - 1);
  }
  // The end waits for all of them together, once.
  expect(performance.now() - before).toBeLessThan(8_000);
  expect(Math.max(...times)).toBeLessThan(5_000);
  hanging.close();
  const weights = await Promise.all(policy.parameters.map(({ name }) => policy.weight(name)));
  expect(weights.flatMap((array) => [...array])).toEqual(plain.weights);
  const lost = warnings.filter((warning) => warning.includes("were dropped"));
  expect(lost.map((warning) => /sink (\w+)/.exec(warning)?.[1])).toEqual([
    ...["never", "thrower", "webhook", "MLflow", "OpenTelemetry", "prometheus"],
  ]);
  for (const warning of lost) expect(warning).toMatch(/took 0 of \d{3,} points; \d{3,} were dropped/);
  expect(lost[1]).toMatch(/the last one: thrown/);
  expect(lost[4]).toMatch(/the last one: connection failed: .*ECONNREFUSED/);
  expect(lost[5]).toMatch(/the last one: Cannot listen/);
});

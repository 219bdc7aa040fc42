import { describe, expect, test } from "vitest";
import type { MetricPoint, MetricSink, SinkRun } from "../../../lib/runs/sinks/metric-sink.js";
import { type SinkLimits, SinkQueue } from "../../../lib/runs/sinks/sink-queue.js";

const RUN: SinkRun = { id: "id", name: "name", folder: undefined, step: 0, config: {} };
const LIMITS: SinkLimits = { capacity: 100, timeoutMs: 50, retryMs: 10, endMs: 200 };
const points = (from: number, count: number): MetricPoint[] =>
  Array.from({ length: count }, (_, i) => ({ name: "x", value: from + i, step: from + i, time: 0 }));

/** A queue before a sink, with what it warned of. */
function queueOf(sink: Omit<MetricSink, "name">, limits: Partial<SinkLimits> = {}) {
  const warnings: string[] = [];
  const named = Object.assign(sink, { name: "test" });
  const queue = new SinkQueue(named, RUN, (text) => warnings.push(text), { ...LIMITS, ...limits });
  return { queue, warnings };
}

test("points come in their order, in batches of at most 1,000, between one start and one end", async () => {
  const calls: string[] = [];
  const values: number[] = [];
  const { queue } = queueOf(
    {
      start: async (run) => void calls.push(`start ${run.name}`),
      write: async (batch) => {
        calls.push(`write ${batch.length}`);
        values.push(...batch.map(({ value }) => value));
      },
      end: async (outcome) => void calls.push(`end ${outcome}`),
    },
    { capacity: 5_000 },
  );
  queue.push(points(0, 1_500));
  queue.push(points(1_500, 1_000));
  expect(calls).toEqual([]);
  expect(await queue.end("finished")).toEqual({
    ...{ name: "test", written: 2_500, dropped: 0, failures: 0, lastFailure: undefined },
  });
  expect(calls).toEqual(["start name", "write 1000", "write 1000", "write 500", "end finished"]);
  expect(values).toEqual([...Array(2_500).keys()]);
});

describe("a sink that", () => {
  test("hangs and ignores its signal gets one call; the newest points wait, and the end waits no longer than it says", async () => {
    let calls = 0;
    const { queue, warnings } = queueOf({
      write: () => {
        calls++;
        return new Promise(() => {});
      },
    });
    for (let step = 0; step < 300; step += 10) {
      queue.push(points(step, 10));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    queue.push(points(300, 10));
    const start = performance.now();
    const report = await queue.end("finished");
    expect(performance.now() - start).toBeLessThan(1_000);
    expect(calls).toBe(1);
    expect(report).toMatchObject({
      written: 0,
      dropped: 310,
      failures: 1,
      lastFailure: "no answer within 50 ms",
    });
    expect(warnings).toEqual([
      "The metric sink test takes no metrics: no answer within 50 ms. The run goes on.",
    ]);
  });

  test("hangs for ever hears of the end nevertheless, with a signal that has fired, to close what it has open", async () => {
    const ends: (boolean | undefined)[] = [];
    const { queue } = queueOf({
      write: () => new Promise(() => {}),
      end: async (_, { signal }) => void ends.push(signal?.aborted),
    });
    queue.push(points(0, 10));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await queue.end("finished")).toMatchObject({ written: 0, dropped: 10 });
    expect(ends).toEqual([true]);
  });

  test("hangs until its signal fires hears of the end while there is time", async () => {
    const ends: (boolean | undefined)[] = [];
    const { queue } = queueOf(
      {
        write: (_, { signal }) =>
          new Promise((_resolve, reject) => {
            // A client takes a moment to close its connection.
            signal?.addEventListener("abort", () => setTimeout(() => reject(signal.reason), 20));
          }),
        end: async (_, { signal }) => void ends.push(signal?.aborted),
      },
      { endMs: 1_000 },
    );
    queue.push(points(0, 10));
    await queue.end("finished");
    expect(ends).toEqual([false]);
  });

  test("hangs until its signal fires is asked again, and the oldest points are dropped", async () => {
    const got: number[] = [];
    let hanging = true;
    const { queue } = queueOf({
      write: (batch, { signal }) =>
        new Promise((resolve, reject) => {
          if (!hanging) got.push(...batch.map(({ value }) => value));
          if (!hanging) return resolve();
          signal?.addEventListener("abort", () => reject(signal.reason));
        }),
    });
    queue.push(points(0, 50));
    await new Promise((resolve) => setTimeout(resolve, 20));
    queue.push(points(50, 200));
    hanging = false;
    const report = await queue.end("finished");
    expect(got).toEqual(Array.from({ length: 100 }, (_, i) => 150 + i));
    expect(report).toMatchObject({ written: 100, dropped: 150, failures: 1 });
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("no, by sk-abcdefghijklmnop1234");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no, by sk-abcdefghijklmnop1234"))],
  ])(
    "%s is asked again, then the points are dropped; its words are shown without secrets",
    async (_, write) => {
      const { queue, warnings } = queueOf({ write }, { retryMs: 1 });
      queue.push(points(0, 7));
      await expect
        .poll(() => {
          queue.push([]);
          return warnings.length;
        })
        .toBe(1);
      expect(warnings).toEqual([
        "The metric sink test takes no metrics: no, by [redacted]. The run goes on.",
      ]);
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(await queue.end("failed")).toMatchObject({ written: 0, dropped: 7, failures: 5 });
    },
  );

  test("fails to start is started again", async () => {
    let starts = 0;
    const got: number[] = [];
    const { queue } = queueOf({
      start: async () => {
        if (++starts < 3) throw new Error("not yet");
      },
      write: async (batch) => void got.push(...batch.map(({ value }) => value)),
    });
    queue.push(points(0, 3));
    await expect.poll(() => got).toEqual([0, 1, 2]);
    expect(starts).toBe(3);
    expect(await queue.end("finished")).toMatchObject({ written: 3, dropped: 0, failures: 2 });
  });

  test("fails at the end is not waited for, and is told to end also if it never started", async () => {
    let ended = 0;
    const { queue } = queueOf({
      start: () => Promise.reject(new Error("refused")),
      write: async () => {},
      end: async () => {
        ended++;
        throw new Error("refused");
      },
    });
    queue.push(points(0, 3));
    expect(await queue.end("finished")).toMatchObject({ written: 0, dropped: 3, failures: 1 });
    expect(ended).toBe(1);
  });
});

test("a callback that throws throws to whoever pushes", async () => {
  const sink = { name: "test", write: () => Promise.reject(new Error("refused")) };
  const queue = new SinkQueue(
    sink,
    RUN,
    () => {
      throw new RangeError("mine");
    },
    LIMITS,
  );
  queue.push(points(0, 1));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(() => queue.push(points(1, 1))).toThrow(RangeError);
  await queue.end("failed");
});

import { describe, expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

/** Eight calls at once, more than libuv has threads; they take about a second together. */
const eightCalls = `${tinyModelScript}
  const model = await tinyModel({ hidden: 256, intermediate: 768, layers: 4, heads: 8, headDim: 32 });
  const options = { temperature: 1, first: new Int32Array(8).fill(1), entropy: false, microBatchTokens: 4096 };
  let finished = 0;
  const startEight = () => Promise.all(
    Array.from({ length: 8 }, async () => { await model.score(packed(8, 128), options); finished++; }));
`;

async function run(script: string) {
  const result = await built.run(`${eightCalls}\n${script}`);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  return JSON.parse(result.stdout);
}

describe("while eight calls run", () => {
  test("a file is read before they are done: libuv's pool is free", async () => {
    const { finishedBeforeRead } = await run(`
      const { readFile } = await import("node:fs/promises");
      const calls = startEight();
      await readFile("package.json");
      const finishedBeforeRead = finished;
      await calls;
      console.log(JSON.stringify({ finishedBeforeRead }));
    `);
    // With the calls on libuv's four threads, at least five are done before the file has its turn.
    expect(finishedBeforeRead).toBeLessThanOrEqual(1);
  });

  test("the event loop turns", async () => {
    const { elapsed, longest } = await run(`
      let last = performance.now();
      const start = last;
      let longest = 0;
      const timer = setInterval(() => {
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
      }, 1);
      await startEight();
      clearInterval(timer);
      console.log(JSON.stringify({ elapsed: performance.now() - start, longest }));
    `);
    // The bound is wide because other processes may hold the cores; a blocked loop would stand for all of the time.
    expect(longest).toBeLessThan(elapsed / 4);
  });

  test.runIf(process.platform === "linux")(
    "the engine's threads are shared, not one team per call",
    async () => {
      const { before, during } = await run(`
      const { readdirSync } = await import("node:fs");
      const threads = () => readdirSync("/proc/self/task").length;
      await model.score(packed(8, 16), options);
      const before = threads();
      const calls = startEight();
      await new Promise((done) => setTimeout(done, 100));
      const during = threads();
      await calls;
      console.log(JSON.stringify({ before, during }));
    `);
      // libuv may start its own four lazily.
      expect(during).toBeLessThanOrEqual(before + 4);
    },
  );
});

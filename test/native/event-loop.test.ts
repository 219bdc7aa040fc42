import { describe, expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

/** Eight calls of a kind at once, more than libuv has threads; they take about a second together. */
const eightCalls = `${tinyModelScript}
  const model = await tinyModel({ hidden: 256, intermediate: 768, layers: 4, heads: 8, headDim: 32 });
  const options = { temperature: 1, first: new Int32Array(8).fill(1), entropy: false, microBatchTokens: 4096 };
  const weights = Float32Array.from({ length: 8 * 128 }, (_, index) => Math.sign(index % 128));
  const decoders = [];
  for (let index = 0; index < 8; index++) {
    const offsets = Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id);
    const sizes = { cacheTokens: 8192, maxBatch: 8, prefillTokens: 512 };
    decoders.push(await loadAddon().createDecoder(model, sizes, { bytes: new Uint8Array(tinyConfig.tokenLimit), offsets }));
  }
  const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0 };
  const segment = { sampling, stops: [], endTokens: [], maxNewTokens: 40 };
  const kinds = {
    score: () => model.score(packed(8, 128), options),
    train: () => model.forwardBackward(packed(8, 128), { crossEntropy: { weight: 1 }, weights }, plainTraining),
    decode: async (index) => {
      for (let stream = 0; stream < 8; stream++)
        decoders[index].submit(Int32Array.of(1, 2, 3), segment, { seed: 1n, stream: BigInt(stream) }, 0);
      for (let done = 0; done < 8; ) done += (await decoders[index].next()).length;
    },
  };
  let finished = 0;
  const startEight = (kind = "score") => Promise.all(
    Array.from({ length: 8 }, async (_, index) => { await kinds[kind](index); finished++; }));
`;

async function run(script: string) {
  const result = await built.run(`${eightCalls}\n${script}`);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  return JSON.parse(result.stdout);
}

describe("while eight calls run", () => {
  test.each(["score", "train", "decode"])(
    "a file is read before they %s: libuv's pool is free",
    async (kind) => {
      const { finishedBeforeRead } = await run(`
      const { readFile } = await import("node:fs/promises");
      const calls = startEight("${kind}");
      await readFile("package.json");
      const finishedBeforeRead = finished;
      await calls;
      console.log(JSON.stringify({ finishedBeforeRead }));
    `);
      // With the calls on libuv's four threads, at least five are done before the file has its turn.
      expect(finishedBeforeRead).toBeLessThanOrEqual(1);
    },
  );

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

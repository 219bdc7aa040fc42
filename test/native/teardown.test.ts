import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

/** The body of a worker that keeps the engine busy: scoring, training and decoding at once, until it is stopped. */
const busyWorker = JSON.stringify(`
  import("./busy.mjs").then(({ busy }) => busy()).catch((error) => { console.error(error); process.exit(1); });
`);

const busyModule = `${tinyModelScript}
  import { parentPort } from "node:worker_threads";
  const segment = { sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 }, stops: [], endTokens: [], maxNewTokens: 400 };
  export async function busy(rounds = Infinity) {
    const addon = loadAddon();
    const model = await tinyModel();
    const texts = Array.from({ length: tinyConfig.tokenLimit }, (_, id) => String.fromCharCode(33 + (id % 90)));
    const decoder = await addon.createDecoder(
      await model.snapshot(),
      { cacheTokens: 8192, maxBatch: 16, prefillTokens: 256 },
      { bytes: new TextEncoder().encode(texts.join("")), offsets: Uint32Array.from({ length: texts.length + 1 }, (_, id) => id) });
    const scoring = { temperature: 1, first: new Int32Array(4).fill(1), entropy: true, microBatchTokens: 4096 };
    const objective = { crossEntropy: { weight: 1 }, weights: new Float32Array(1200).fill(1) };
    objective.weights.forEach((_, index) => { if (index % 300 === 0) objective.weights[index] = 0; });
    for (let round = 0; round < rounds; round++) {
      const first = decoder.submit(Int32Array.of(1, 2, 3), segment, { seed: 1n, stream: BigInt(round) }, 512);
      parentPort?.postMessage(round);
      const [finished] = await Promise.all([
        decoder.next(),
        model.score(packed(4, 300), scoring),
        model.forwardBackward(packed(4, 300), objective, plainTraining),
      ]);
      if (finished[0].sequence !== first) throw new Error("another sequence finished");
      decoder.release(first);
    }
  }
`;

/** Runs a script beside \`busy.mjs\`; it must end by itself and say nothing on stderr. */
async function expectQuiet(script: string): Promise<string> {
  const result = await built.run(
    `
    import { writeFileSync } from "node:fs";
    writeFileSync("busy.mjs", ${JSON.stringify(busyModule)});
    const { Worker } = await import("node:worker_threads");
    const { once } = await import("node:events");
    const { setTimeout: sleep } = await import("node:timers/promises");
    const start = () => new Worker(${busyWorker}, { eval: true });
    ${script}
  `,
  );
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  return result.stdout;
}

test("a worker that alone used the engine ends; the process lives on", async () => {
  const output = await expectQuiet(`
    const worker = new Worker(
      'import("./busy.mjs").then(({ busy }) => busy(3)).catch((error) => { console.error(error); process.exit(1); });',
      { eval: true });
    const [code] = await once(worker, "exit");
    await sleep(500);
    console.log(code);
  `);
  expect(output).toBe("0\n");
});

test("a worker is terminated while the engine scores, trains and decodes for it", async () => {
  const output = await expectQuiet(`
    for (let round = 0; round < 20; round++) {
      const worker = start();
      await once(worker, "message");
      await sleep(round);
      await worker.terminate();
    }
    await sleep(300);
    console.log("alive");
  `);
  expect(output).toBe("alive\n");
});

test.each([
  ["waits", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"],
  ["computes", "for (;;);"],
])("a worker is terminated inside a getter that a native call runs and that %s", async (_what, body) => {
  // The exception by which Node ends the worker arrives in C++, which can hand it to nobody any more.
  const worker = JSON.stringify(`
    import("./dist/native/load.js").then(({ loadAddon }) => {
      const { parentPort } = require("node:worker_threads");
      const sampling = { topK: 0, topP: 1, minP: 0, get temperature() { parentPort.postMessage("inside"); ${body}; return 1; } };
      loadAddon().filterProbabilities(Float32Array.of(1, 2), sampling);
      parentPort.postMessage("behind");
    });
  `);
  const output = await expectQuiet(`
    const messages = [];
    for (let round = 0; round < 10; round++) {
      const worker = new Worker(${worker}, { eval: true });
      worker.on("message", (message) => messages.push(message));
      await once(worker, "message");
      await worker.terminate();
    }
    await sleep(100);
    console.log(messages.join());
  `);
  expect(output).toBe(`${Array(10).fill("inside").join()}\n`);
});

test("the process exits while the engine works", async () => {
  const output = await expectQuiet(`
    const { busy } = await import("./busy.mjs");
    busy();
    await sleep(200);
    console.log("leaving");
    process.exit(0);
  `);
  expect(output).toBe("leaving\n");
});

test("an engine with nothing to do does not keep the process alive", async () => {
  const output = await expectQuiet(`
    const { busy } = await import("./busy.mjs");
    await busy(1);
    console.log("done");
  `);
  expect(output).toBe("done\n");
});

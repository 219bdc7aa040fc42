import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

/** Five training steps, then the hash of the weights; and a life of everything that holds native memory. */
const module = `${tinyModelScript}
  import { createHash } from "node:crypto";
  const adam = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, maxGradientNorm: 1 };
  const objective = { crossEntropy: { weight: 1 }, weights: Float32Array.from({ length: 400 }, (_, index) => index % 100 === 0 ? 0 : 1) };
  export async function train(steps = 5) {
    const model = await tinyModel();
    for (let step = 0; step < steps; step++) {
      await model.forwardBackward(packed(4, 100), objective, plainTraining);
      await model.step(adam);
    }
    const hash = createHash("sha256");
    for (const { name } of model.parameters) hash.update(await model.weight(name));
    model.dispose();
    return hash.digest("hex");
  }
  const texts = { bytes: new Uint8Array(tinyConfig.tokenLimit), offsets: Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id) };
  const segment = { sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 }, stops: [], endTokens: [], maxNewTokens: 4 };
  export async function life(seed) {
    const model = await tinyModel();
    const frozen = await model.snapshot();
    const decoder = await loadAddon().createDecoder(frozen, { cacheTokens: 512, maxBatch: 4, prefillTokens: 64 }, texts);
    decoder.submit(Int32Array.of(1, 2, 3), segment, { seed: 1n, stream: BigInt(seed) }, 16);
    await decoder.next();
    await model.forwardBackward(packed(1, 20), { ...objective, weights: objective.weights.subarray(0, 20) }, plainTraining);
    await model.step(adam);
    decoder.dispose();
    frozen.dispose();
    model.dispose();
  }
`;

async function run(script: string): Promise<unknown> {
  const result = await built.run(`
    import { writeFileSync } from "node:fs";
    writeFileSync("life.mjs", ${JSON.stringify(module)});
    const { train, life } = await import("./life.mjs");
    ${script}
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  return JSON.parse(result.stdout);
}

test("a thousand lives of model, snapshot and decoder leave the process as large as two hundred", async () => {
  const sizes = await run(`
    const { setFlagsFromString } = await import("node:v8");
    const { runInNewContext } = await import("node:vm");
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc");
    const sizes = [];
    for (let cycle = 1; cycle <= 1000; cycle++) {
      await life(cycle);
      if (cycle % 200 === 0) {
        gc();
        sizes.push(Math.round(process.memoryUsage().rss / 2 ** 20));
      }
    }
    console.log(JSON.stringify(sizes));
  `);
  const [settled = 0, ...later] = sizes as number[];
  // One leaked model a cycle would be 800 of 0.5 MiB.
  expect(Math.max(...later) - settled).toBeLessThan(24);
});

test("workers train side by side and end in any order, each with the weights of one that trains alone", async () => {
  const { alone, hashes, codes } = (await run(`
    const { Worker } = await import("node:worker_threads");
    const { once } = await import("node:events");
    const alone = await train(5);
    const workers = [9, 1, 5, 3].map((more) => new Worker(
      'const { parentPort } = require("node:worker_threads");' +
      'import("./life.mjs").then(async ({ train }) => { parentPort.postMessage(await train(5)); await train(' + more + '); });',
      { eval: true }));
    const ends = workers.map((worker) => once(worker, "exit"));
    const hashes = await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
    const codes = (await Promise.all(ends)).flat();
    console.log(JSON.stringify({ alone, hashes, codes }));
  `)) as { alone: string; hashes: string[]; codes: number[] };
  expect(alone).toMatch(/^[0-9a-f]{64}$/);
  expect(hashes).toEqual([alone, alone, alone, alone]);
  expect(codes).toEqual([0, 0, 0, 0]);
});

test("a child that is forked while the engine works trains as its parent does", async () => {
  const { own, child } = (await run(`
    const { fork } = await import("node:child_process");
    const { once } = await import("node:events");
    writeFileSync("child.mjs", 'import { train } from "./life.mjs"; process.send(await train(5)); process.disconnect();');
    const training = train(5);
    const process_ = fork("child.mjs");
    const [message] = await once(process_, "message");
    const [code] = await once(process_, "exit");
    console.log(JSON.stringify({ own: await training, child: [message, code] }));
  `)) as { own: string; child: [string, number] };
  expect(child).toEqual([own, 0]);
});

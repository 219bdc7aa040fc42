import { existsSync } from "node:fs";
import { cp, mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DeviceInfo } from "../../lib/native/addon.js";
import { builtPackage } from "../support/built-package.js";
import { CUDA_BINARY, placeCudaBinary, placeCudaFile, placeCudaStandIn } from "../support/cuda-addon.js";
import { smallConfigs } from "../support/small-policy.js";

const built = builtPackage();
const cpuBinary = () => join(built.folder, "build/Release/hindsearch.node");
beforeEach(() => built.placeBinary("build/Release/hindsearch.node"));

/** Runs a script that calls `tell` with what is to be looked at; what was told, and the warnings. */
async function run(body: string) {
  const result = await built.run(`
    import { engine, Policy, SupervisedTrainer } from "hindsearch";
    import { loadAddon } from "./dist/native/load.js";
    const config = ${JSON.stringify(smallConfigs.qwen2)};
    const open = (device, options = {}) => Policy.initialize({ config, seed: 7, compute: "f32", standardDeviation: 0.2, device, ...options });
    const failure = (work) => work().then(() => "none", ({ code, message, name }) => ({ code, message, name }));
    const told = {};
    const tell = (name, value) => { told[name] = value; };
    const warnings = [];
    process.on("warning", ({ name, message }) => warnings.push({ name, message }));
    ${body}
    await new Promise((done) => setImmediate(done));
    console.log(JSON.stringify({ told, warnings }));
  `);
  expect(result, result.stderr).toMatchObject({ code: 0 });
  return JSON.parse(result.stdout) as {
    told: Record<string, unknown> & { cuda: { message: string }; device: DeviceInfo };
    warnings: { name: string; message: string }[];
  };
}

test("each policy works with the engine that made it, two of them side by side", async () => {
  await mkdir(join(built.folder, "build/Release/cuda"));
  await cp(cpuBinary(), join(built.folder, "build/Release/cuda/hindsearch-cuda.node"));
  const { told, warnings } = await run(`
    engine.threads = 1;
    const held = () => ["cpu", "cuda"].map((name) => loadAddon(name).memory().bytes > 0);
    const cpu = await open();
    tell("before", held());
    const cuda = await open("cuda");
    tell("after", held());
    tell("devices", [cpu.device, cuda.device, (await open("auto")).device]);
    tell("threads", loadAddon("cuda").threads());
    engine.threads = 2;
    tell("threads later", loadAddon("cuda").threads());
    const signal = new AbortController().signal;
    const tokens = [3, 14, 15, 92, 6];
    const results = [];
    for (const policy of [cpu, cuda]) {
      const frozen = await policy.snapshot();
      await policy.forwardBackward([{ tokens, weights: [0, 1, 1, 1, 1] }], { crossEntropy: {} }, { signal });
      await policy.step({ learningRate: 1e-2 });
      await policy.saveOptimizer("state.safetensors", { signal });
      await policy.loadOptimizer("state.safetensors", { signal });
      await policy.save("saved", { signal });
      const [scored] = await policy.score([{ tokens }], { signal });
      const [written] = await policy.generate([tokens], { maxNewTokens: 5, signal });
      const [old] = await frozen.score([{ tokens }]);
      results.push(JSON.stringify([scored, written, old]));
      tell("frozen on " + policy.device, frozen.device);
    }
    tell("equal", results[0] === results[1]);
    const reloaded = await Policy.load("saved", { device: "cuda", signal });
    tell("reloaded", reloaded.device);
    const sum = loadAddon("cpu").memory().bytes + loadAddon("cuda").memory().bytes;
    tell("memory", engine.memory.bytes === sum);
    tell("aborted", (await failure(() => cuda.score([{ tokens }], { signal: AbortSignal.abort() }))).code);
    const waiting = new AbortController();
    const busy = cuda.score(Array.from({ length: 200 }, () => ({ tokens: Array(400).fill(9) })));
    const call = failure(() => cuda.score([{ tokens }], { signal: waiting.signal }));
    waiting.abort();
    tell("aborted later", (await call).code);
    await busy;
  `);
  expect(told).toEqual({
    before: [true, false],
    after: [true, true],
    devices: ["cpu", "cuda", "cuda"],
    threads: 1,
    "threads later": 2,
    "frozen on cpu": "cpu",
    "frozen on cuda": "cuda",
    equal: true,
    reloaded: "cuda",
    memory: true,
    aborted: "ABORTED",
    "aborted later": "ABORTED",
  });
  expect(warnings).toEqual([]);
});

/** What keeps the GPU from being used: the code, and words of the message. */
const UNUSABLE: [name: string, place: () => Promise<void>, code: string, message: RegExp][] = [
  [
    "not built",
    async () => {},
    "DEVICE_UNAVAILABLE",
    /there is no .*build\/Release\/cuda\/hindsearch-cuda\.node\..*HINDSEARCH_CUDA=ON npm rebuild.*npm run build:cuda/,
  ],
  [
    "no shared object",
    () => placeCudaFile(built, "not a shared object"),
    "ADDON_LOAD_FAILED",
    /hindsearch-cuda\.node cannot be loaded on .*HINDSEARCH_CUDA=ON npm rebuild/,
  ],
  [
    "cut off",
    async () => placeCudaFile(built, (await readFile(cpuBinary())).subarray(0, 100_000)),
    "ADDON_LOAD_FAILED",
    /hindsearch-cuda\.node cannot be loaded on .*: the file is cut off\./,
  ],
  [
    "of another version",
    () => placeCudaStandIn(built, {}, "0.0.1"),
    "ADDON_LOAD_FAILED",
    /hindsearch-cuda\.node is of version 0\.0\.1, this package of version /,
  ],
  [
    "without a driver",
    () => placeCudaStandIn(built, { available: false, reason: "No CUDA driver: install one." }),
    "DEVICE_UNAVAILABLE",
    /^No CUDA driver: install one\.$/,
  ],
];

describe.each(UNUSABLE)("an engine of the GPU that is %s", (_, place, code, message) => {
  let found: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    await built.placeBinary("build/Release/hindsearch.node");
    await place();
    found = await run(`
      tell("cuda", await failure(() => open("cuda")));
      const policies = [await open("auto"), await open("auto"), await open()];
      tell("devices", policies.map(({ device }) => device));
      const [scored] = await policies[0].score([{ tokens: [1, 2, 3] }]);
      tell("works", scored.logProbs.length);
    `);
  });

  test("is refused where it was asked for, with what to do", () => {
    expect(found.told.cuda).toMatchObject({ name: "HindsearchError", code });
    expect(found.told.cuda.message).toMatch(message);
  });

  test("leaves auto the CPU, which is said once, with the reason", () => {
    expect(found.told).toMatchObject({ devices: ["cpu", "cpu", "cpu"], works: 3 });
    expect(found.warnings).toEqual([
      { name: "HindsearchWarning", message: `device "auto" takes the CPU: ${found.told.cuda.message}` },
    ]);
  });
});

test("what fails on a GPU that can be used does not end on the CPU", async () => {
  await placeCudaStandIn(built, {});
  const { told, warnings } = await run(`
    tell("auto", (await failure(() => open("auto", { standardDeviation: -1 }))).code);
    tell("odd", await failure(() => open("gpu")));
  `);
  expect(told.auto).toBe("INVALID_ARGUMENT");
  expect(told.odd).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: 'device is "gpu", expected one of "cpu", "cuda", "auto".',
  });
  expect(warnings).toEqual([]);
});

test("a CUDA engine of a prebuild lies beside the CPU's", async () => {
  const prebuilds = `prebuilds/${process.platform}-${process.arch}`;
  await built.placeBinary(`${prebuilds}/hindsearch.node`);
  const cuda = join(built.folder, prebuilds, "cuda/hindsearch-cuda.node");
  await mkdir(dirname(cuda));
  await cp(join(built.folder, prebuilds, "hindsearch.node"), cuda);
  expect((await run(`tell("device", (await open("cuda")).device);`)).told.device).toBe("cuda");
});

test("bf16 is what auto computes in on a GPU; its device is told", async () => {
  await placeCudaStandIn(built, { description: "NVIDIA X", totalBytes: 24e9, freeBytes: 20e9 });
  const { told } = await run(`
    tell("compute", (await open("cuda", { compute: "auto" })).compute);
    tell("device", await engine.device("cuda"));
    tell("cpu", await engine.device("cpu"));
  `);
  expect(told).toMatchObject({
    compute: "bf16",
    device: { available: true, description: "NVIDIA X", totalBytes: 24e9, freeBytes: 20e9 },
    cpu: { available: true, totalBytes: 0, freeBytes: 0 },
  });
});

describe("memory of the GPU", () => {
  const GIB = 2 ** 30;

  test("what does not fit there is refused before it is allocated, with what to lower", async () => {
    await placeCudaStandIn(built, { description: "NVIDIA X", totalBytes: 24 * GIB, freeBytes: 2 ** 20 });
    const { told } = await run(`
      const held = () => loadAddon("cuda").memory().bytes;
      const policy = await open("cuda");
      const before = held();
      tell("decoder", await failure(() => policy.createDecoder({ cacheTokens: 100_000 })));
      tell("load", await failure(() => open("cuda", { config: { ...config, hidden_size: 960 } })));
      tell("more", held() - before);
      const decoder = await policy.createDecoder({ cacheTokens: 100_000, memoryLimit: null });
      tell("without a limit", decoder.bytes > 0);
    `);
    expect(told).toMatchObject({ more: 0, "without a limit": true });
    expect(told.decoder).toMatchObject({
      code: "OUT_OF_MEMORY",
      message: expect.stringMatching(
        /^A decoder needs \d+ MiB; 1\.0 MiB of 24\.00 GiB are free on the GPU \(NVIDIA X\)\. .*lower cacheTokens/,
      ),
    });
    expect(told.load).toMatchObject({
      code: "OUT_OF_MEMORY",
      message: expect.stringMatching(/^Loading a model of .* are free on the GPU/),
    });
  });

  test("a training that does not fit ends before it begins", async () => {
    await placeCudaStandIn(built, { description: "NVIDIA X", totalBytes: 24 * GIB, freeBytes: 4 * 2 ** 20 });
    const { told } = await run(`
      const policy = await open("cuda", { compute: "bf16" });
      const tokens = Array.from({ length: 400 }, (_, i) => i % 100);
      const examples = [{ tokens, weights: tokens.map((_, i) => +(i > 0)) }];
      const learningRate = { kind: "constant", learningRate: 1e-3 };
      const trainer = new SupervisedTrainer({ policy, examples, learningRate, steps: 1, batchSize: 32 });
      tell("train", await failure(async () => { for await (const _ of trainer); }));
      tell("step", policy.optimizerStep);
    `);
    expect(told.step).toBe(0);
    expect(told.train).toMatchObject({
      code: "OUT_OF_MEMORY",
      message: expect.stringMatching(
        /^Training, at its largest in the update, needs .* of 24\.00 GiB are free on the GPU .*lower microBatchTokens/,
      ),
    });
  });
});

describe.runIf(existsSync(CUDA_BINARY))("the CUDA engine as it was built", () => {
  let found: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    await built.placeBinary("build/Release/hindsearch.node");
    await placeCudaBinary(built);
    found = await run(`
      tell("device", await engine.device("cuda"));
      tell("again", await engine.device("cuda"));
      tell("cuda", await failure(async () => tell("opened", (await open("cuda")).device)));
      const policies = [await open("auto"), await open("auto")];
      tell("auto", policies.map(({ device }) => device));
      const [scored] = await policies[0].score([{ tokens: [1, 2, 3] }]);
      tell("works", scored.logProbs.length);
      tell("held", engine.memory.bytes > 0);
    `);
  });

  test("computes where a GPU can be used", ({ skip }) => {
    if (!found.told.device.available) skip("no GPU here");
    expect(found.told).toMatchObject({ opened: "cuda", auto: ["cuda", "cuda"], works: 3, held: true });
    expect(found.told.device.totalBytes).toBeGreaterThan(found.told.device.freeBytes);
    expect(found.warnings).toEqual([]);
  });

  test("says elsewhere what is missing and what to install, and leaves auto the CPU", ({ skip }) => {
    if (found.told.device.available) skip("there is a GPU");
    const { reason } = found.told.device;
    expect(reason).toMatch(/driver|GPU|cuBLAS/);
    expect(reason).toMatch(/[Ii]nstall|CUDA_VISIBLE_DEVICES|nvidia-smi/);
    expect(found.told).toMatchObject({
      again: found.told.device,
      cuda: { name: "HindsearchError", code: "DEVICE_UNAVAILABLE", message: reason },
      auto: ["cpu", "cpu"],
      works: 3,
      held: true,
    });
    expect(found.told.opened).toBeUndefined();
    expect(found.warnings).toEqual([
      { name: "HindsearchWarning", message: `device "auto" takes the CPU: ${reason}` },
    ]);
  });
});

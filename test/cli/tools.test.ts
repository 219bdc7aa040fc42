import { execFile, spawn } from "node:child_process";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test, vi } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { completion, marked } from "../judge/chat-service.js";
import { type CommandEvent, commandLine, configuration } from "../support/command-line.js";
import { placeCudaFile, placeCudaStandIn } from "../support/cuda-addon.js";
import { LoopbackServer, sendJson } from "../support/loopback-server.js";

vi.setConfig({ testTimeout: 60_000 });
const { built, path, run } = commandLine();

// biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a configuration refers to a variable
const REFERENCE = "${JUDGE_KEY}";
const judge = (origin: string) =>
  `judge: { kind: chat, baseURL: "${origin}/v1", model: judge, apiKey: "${REFERENCE}", structured: never, retries: 0 }\n`;
const named = (events: readonly CommandEvent[], name: string) => events.filter(({ event }) => event === name);

describe("doctor", () => {
  test("checks machine and numerics, and everything that a configuration needs", async () => {
    await using server = await LoopbackServer.start((request, response) =>
      sendJson(
        response,
        completion(marked(request, "Search who directed Jaws in 1975, then where that person was born.")),
      ),
    );
    await writeFile(path("whole.yaml"), configuration(judge(server.origin)));
    const { code, events, stderr } = await run(["doctor", "whole.yaml", "--json"], {
      env: { JUDGE_KEY: "canary-1234" },
    });
    expect(code, stderr).toBe(0);
    const checks = Object.fromEntries(
      named(events, "check").map(({ name, status, detail }) => [name, `${status}: ${detail}`]),
    );
    expect(checks).toMatchObject({
      versions: expect.stringMatching(/^ok: hindsearch \d.*Node v/),
      engine: expect.stringMatching(/^ok: \S+, \d+ threads/),
      "numerics f32": expect.stringMatching(/^ok: log-probs within \d\.\de-\d nats of float64/),
      "numerics bf16": expect.stringMatching(/^ok: log-probs within/),
      "engine of the GPU": expect.stringMatching(/^skipped: The CUDA engine is not installed: .*build:cuda/),
      "numerics bf16 on the GPU": expect.stringMatching(/^skipped: The CUDA engine is not installed/),
      model: expect.stringMatching(/^ok: llama, 0\.02 M parameters/),
      tokenizer: expect.stringMatching(/^ok: 27 ids/),
      questions: "ok: 6 to train, 2 to evaluate",
      retriever: expect.stringMatching(/^ok: memory: 1 passages/),
      judge: expect.stringMatching(/^ok: chat: wrote a critique/),
      "run folder": "ok: can be written",
    });
    expect(JSON.stringify(events) + stderr).not.toContain("canary");
  });

  test("tries the retriever of evaluations, if it is another one", async () => {
    await using server = await LoopbackServer.start((_request, response) => sendJson(response, {}, 500));
    const own = `evaluation.retriever={ kind: http, url: "${server.origin}/retrieve", retries: 0 }`;
    const { code, stdout } = await run(["doctor", "train.yaml", "--set", own]);
    expect(stdout).toMatch(/^ok +retriever: memory/m);
    expect(stdout).toMatch(/^failed +retriever of evaluations: .*status 500/m);
    expect(server.requests[0]?.body.queries).toEqual([expect.stringContaining("colour of")]);
    expect(code).toBe(4);
  });

  test("one thing that is wrong does not keep the others from being looked at, and is the exit code", async () => {
    const free = await freePort();
    const more = judge(`http://127.0.0.1:${free}`);
    await writeFile(path("broken.yaml"), configuration(more).replace("corpus.jsonl", "nowhere.jsonl"));
    const { code, stdout, stderr } = await run(["doctor", "broken.yaml"], {
      env: { JUDGE_KEY: "canary-1234" },
    });
    expect(stdout).toMatch(/^failed +retriever: .*nowhere\.jsonl/m);
    expect(stdout).toMatch(/^failed +judge: chat: no critique/m);
    expect(stdout).toMatch(/^ok +run folder/m);
    expect(stderr).toMatch(/2 of \d+ checks failed: retriever, judge\./);
    expect(stdout + stderr).not.toContain("canary");
    expect(code).toBe(3);
  });

  test("what cannot be looked at without the model is skipped, not failed", async () => {
    const { code, stdout, stderr } = await run(["doctor", "train.yaml", "--set", "model.folder=nowhere"]);
    expect(stdout).toMatch(/^failed +model: .*nowhere/m);
    expect(stdout).toMatch(/^skipped +tokenizer: [\s\S]*^skipped +protocol: [\s\S]*^ok +retriever/m);
    expect(stderr).toMatch(/2 of \d+ checks failed: memory of the training, model\./);
    expect(code).toBe(3);
  });

  test("looks at the GPU too, and at its memory where the configuration is to run there", async () => {
    const GIB = 2 ** 30;
    const gpu = { description: "NVIDIA X, cuBLAS 13.1", totalBytes: 24 * GIB, freeBytes: 20 * GIB };
    await placeCudaStandIn(built, gpu);
    const { code, stdout, stderr } = await run(["doctor", "train.yaml", "--device", "cuda"]);
    expect(code, stdout + stderr).toBe(0);
    expect(stdout).toMatch(/^ok +engine of the GPU: NVIDIA X, cuBLAS 13\.1; 20\.00 GiB free of 24\.00 GiB/m);
    expect(stdout).toMatch(
      /^ok +numerics f32 on the GPU: log-probs within .* log-probs are within 0\.0001 nats/m,
    );
    expect(stdout).toMatch(
      /^ok +numerics bf16 on the GPU: log-probs within .* log-probs are within 0\.25 nats/m,
    );
    expect(stdout).toMatch(/^ok +memory of the training: .*Free on the GPU \(NVIDIA X, .*\): 20\.00 GiB/m);
    expect(stdout).toMatch(/^ok +model: llama, .* on cuda/m);

    await placeCudaStandIn(built, { ...gpu, freeBytes: 2 ** 20 });
    const small = await run(["doctor", "train.yaml", "--device", "cuda"]);
    expect(small.stdout).toMatch(/^warning +memory of the training: .*It does not fit/m);

    await placeCudaStandIn(built, { available: false, reason: "No NVIDIA driver was found." });
    const none = await run(["doctor", "train.yaml", "--device", "cuda"]);
    expect(none.stdout).toMatch(/^skipped +numerics f32 on the GPU: No NVIDIA driver/m);
    expect(none.stdout).toMatch(/^failed +model: No NVIDIA driver was found/m);
    expect(none.code).toBe(5);

    await placeCudaFile(built, "no shared object");
    expect((await run(["doctor"])).stdout).toMatch(/^failed +engine of the GPU: .*cannot be loaded/m);
    await built.placeBinary("build/Release/hindsearch.node");
  });

  test("an engine that cannot be loaded is named with what to do", async () => {
    await built.removeBinary();
    const { code, stdout } = await run(["doctor"]);
    await built.placeBinary("build/Release/hindsearch.node");
    expect(stdout).toMatch(/^failed +engine: No native engine .*npm rebuild hindsearch/m);
    expect(stdout).toMatch(/^ok +optional packages/m);
    expect(code).toBe(5);
  });
});

describe("estimate", () => {
  test("of a GPU, with one to compare with and without", async () => {
    const command = ["estimate", "train.yaml", "--device", "cuda", "--json"];
    const without = await run(command);
    expect(without.code, without.stderr).toBe(0);
    const [unknown] = named(without.events, "memory");
    expect(unknown).toMatchObject({
      available: null,
      fits: false,
      settings: { device: "cuda", compute: "f32" },
    });
    const lines = (await run(command.slice(0, -1))).stdout;
    expect(lines).toMatch(/^GPU: The CUDA engine is not installed/m);
    expect(lines).toMatch(/^Available: .* It fits\.$/m);

    await placeCudaStandIn(built, { totalBytes: 24e9, freeBytes: 20e9 });
    const [memory] = named((await run(command)).events, "memory");
    await built.placeBinary("build/Release/hindsearch.node");
    expect(memory).toMatchObject({ available: 20e9, fits: true });
  });

  test("says memory by phase, and time by a probe", async () => {
    const { code, events, stderr } = await run(["estimate", "train.yaml", "--probe", "--json"]);
    expect(code, stderr).toBe(0);
    const [memory] = named(events, "memory");
    expect(memory).toMatchObject({ fits: true, phases: { update: { bytes: expect.any(Number) } } });
    const [time] = named(events, "time");
    expect(time).toMatchObject({ trajectories: 10, evaluations: 3 });
    expect(time?.step).toBeCloseTo(
      3 * (time?.milliseconds.rollout + time?.milliseconds.judgeAndReference + time?.milliseconds.update),
      6,
    );
    expect(time?.training).toBeCloseTo(4 * time?.step + 3 * time?.evaluation, 6);
    await expect(readdir(path("run"))).rejects.toThrow();
  });

  test("says so when it does not fit", async () => {
    const large = ["--set", "training.questionsPerStep=100000000", "--set", "protocol.maxTokens=100000"];
    const { code, stdout } = await run(["estimate", "train.yaml", ...large]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/Peak: .*\nAvailable: .*It does not fit/),
    });
  });
});

describe("chat", () => {
  test("shows every turn and what was found, and the answer", async () => {
    const { code, events, stderr } = await run([
      "chat",
      "train.yaml",
      "colour of ann ?",
      "--temperature",
      "1",
      "--json",
    ]);
    expect(code, stderr).toBe(0);
    expect(events.map(({ event }) => event).slice(0, 3)).toEqual(["question", "turn", "passages"]);
    expect(named(events, "turn")[0]?.text).toMatch(/^<search> \w+ ?<\/search>$/);
    const [{ query, passages } = { query: "", passages: [] }] = named(events, "passages");
    expect(passages[0].id).toBe(query);
    expect(events.at(-1)).toMatchObject({ event: "answer", searches: named(events, "passages").length });
    const { stdout } = await run(["chat", "train.yaml", "colour of ann ?", "--temperature", "1"]);
    expect(stdout).toMatch(
      /agent:\n {2}<search> \w+ ?<\/search>\nfound for "\w+":\n {2}1\. \w+: \w+ is \w+\n/,
    );
    expect(stdout).toMatch(/answer: \w+/);
  });

  test("the same seed says the same", async () => {
    const args = ["chat", "train.yaml", "colour of bob ?", "--temperature", "1", "--seed", "3", "--json"];
    const [first, second] = [await run(args), await run(args)];
    expect(first.stdout).toBe(second.stdout);
  });
});

test("export writes a folder that loads with the same weights, and not over another", async () => {
  expect(
    (await run(["train", "train.yaml", "--set", "run.folder=exported", "--set", "training.steps=2"])).code,
  ).toBe(0);
  const { code, stdout } = await run(["export", "exported", "-o", "out/model"]);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: "The model after 2 training steps is in out/model.\n",
  });
  expect(await readdir(path("out/model"))).toEqual(
    expect.arrayContaining(["config.json", "model.safetensors", "tokenizer.json"]),
  );
  using exported = await Policy.load(path("out/model"), { compute: "f32" });
  using checkpoint = await Policy.load(path("exported/checkpoints/step-00000002/model"), { compute: "f32" });
  for (const { name } of exported.parameters)
    expect(await exported.weight(name)).toEqual(await checkpoint.weight(name));
  const again = await run(["export", "exported", "-o", "out/model"]);
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("is not empty") });
  const half = await run(["export", "exported", "-o", "out/half", "--dtype", "bf16"]);
  expect(half.code).toBe(0);
  const size = async (folder: string) => (await readFile(path(folder, "model.safetensors"))).length;
  expect(await size("out/half")).toBeLessThan(0.7 * (await size("out/model")));
});

test("an export that was killed does not keep the next one from the folder; a damaged checkpoint is not exported", async () => {
  const settings = ["--set", "run.folder=killed", "--set", "training.steps=2"];
  expect((await run(["train", "train.yaml", ...settings])).code).toBe(0);
  // The first file that would get its name.
  const kill = `import fs from "node:fs/promises"; import { syncBuiltinESMExports } from "node:module";
    fs.rename = () => process.kill(process.pid, "SIGKILL"); syncBuiltinESMExports();`;
  const atRename = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(kill)}` };
  const args = ["export", "killed", "-o", "killed-out"];
  expect((await run(args, { env: atRename })).signal).toBe("SIGKILL");
  expect((await readdir(path("killed-out"))).length).toBeGreaterThan(0);
  expect(await run(args)).toMatchObject({ code: 0, stderr: "" });
  expect((await readdir(path("killed-out"))).filter((name) => name.includes("partial"))).toEqual([]);
  (await Policy.load(path("killed-out"), { compute: "f32" })).dispose();

  const weights = path("killed/checkpoints/step-00000002/model/model.safetensors");
  const bytes = await readFile(weights);
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  await writeFile(weights, bytes);
  for (const which of ["2", "best"]) {
    const refused = await run(["export", "killed", "-o", `killed-${which}`, "--checkpoint", which]);
    expect(refused).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/step-00000002 cannot be used: .*damaged.*\(INVALID_CHECKPOINT\)/),
    });
  }
});

test("init writes a configuration that is valid but for its files, and a script that runs; never over another", async () => {
  const { code } = await run(["init", "fresh"]);
  expect(code).toBe(0);
  const text = await readFile(path("fresh/hindsearch.yaml"), "utf8");
  expect(text).toMatch(/# Training steps\. The paper: 300\.\n {2}steps: 300\n/);
  expect(text).not.toMatch(/^ *# *$\n {2}\w/m);
  const trained = await run(
    [
      "train",
      "fresh/hindsearch.yaml",
      "--set",
      "model.folder=nowhere",
      "--set",
      "data.questions=../train.jsonl",
      "--set",
      "evaluation.questions=../dev.jsonl",
      "--set",
      "retriever.corpus=../corpus.jsonl",
    ],
    { env: { HINDSEARCH_JUDGE_API_KEY: "x" } },
  );
  expect(trained).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/nowhere.*\(INVALID_CHECKPOINT\)/),
  });
  await writeFile(path("fresh/hindsearch.yaml"), "mine");
  const again = await run(["init", "fresh"]);
  expect(again).toMatchObject({ code: 3, stderr: expect.stringContaining("is not written over") });
  expect(await readFile(path("fresh/hindsearch.yaml"), "utf8")).toBe("mine");

  await mkdir(path("fresh/node_modules"));
  await symlink(built.folder, path("fresh/node_modules/hindsearch"));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["ask.mjs", "../model", "../corpus.jsonl", "colour of ann ?"],
    { cwd: path("fresh") },
  );
  expect(stdout).toMatch(/^answer: /m);
  const wrong = execFile(process.execPath, ["ask.mjs", "nowhere", "../corpus.jsonl", "x"], {
    cwd: path("fresh"),
  });
  let said = "";
  wrong.stderr?.on("data", (chunk) => {
    said += chunk;
  });
  expect(await new Promise((done) => wrong.on("close", done))).toBe(1);
  expect(said).toMatch(/^INVALID_CHECKPOINT: .*nowhere.*\n$/);
});

describe("demo", () => {
  test("what it refuses is its own exit code", async () => {
    const { code, stderr } = await run(["demo", "--weight", "much"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('--weight is "much"') });
  });

  test.skipIf(process.platform === "win32")(
    "runs, and ends when it is told to, with all its processes",
    async () => {
      const child = spawn(process.execPath, [
        join(built.folder, "dist/cli/main.js"),
        "demo",
        "--runs",
        path("demo"),
      ]);
      let said = "";
      child.stdout.on("data", (chunk) => {
        said += chunk;
        if (said.includes("Warm start")) child.kill("SIGTERM");
      });
      expect(await new Promise((done) => child.on("close", done))).toBe(143);
      expect(said).toContain("1. Warm start");
    },
  );
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((ready) => server.once("listening", ready));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}

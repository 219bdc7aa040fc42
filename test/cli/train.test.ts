import { existsSync, renameSync, writeFileSync } from "node:fs";
import { appendFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { describe, expect, test, vi } from "vitest";
import { parse } from "yaml";
import { completion, marked } from "../judge/chat-service.js";
import { type CommandEvent, commandLine, configuration } from "../support/command-line.js";
import { type Handler, LoopbackServer, sendJson } from "../support/loopback-server.js";

vi.setConfig({ testTimeout: 60_000 });
const { path, run, weights } = commandLine();

const KEY = "canary-key-77d1";
// biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a configuration refers to a variable
const REFERENCE = "${JUDGE_KEY}";
const env = { JUDGE_KEY: KEY };

/** A judge that names the entity of the question after a while; it holds up every step. */
const slow =
  (milliseconds: number): Handler =>
  async (request, response) => {
    // A server that knows no schemas, as a judge asks first.
    if (request.body.response_format) return sendJson(response, { error: "unknown field" }, 400);
    await new Promise((done) => setTimeout(done, milliseconds));
    const [, entity = ""] = /colour of (\w+)/.exec(JSON.stringify(request.body)) ?? [];
    sendJson(response, completion(marked(request, `search for ${entity} and its colour`)));
  };

/** A configuration with a judge, which writes to a run folder of its own. */
async function judged(server: LoopbackServer, name: string, steps: number): Promise<string> {
  const judge = `judge: { kind: chat, baseURL: "${server.origin}/v1", model: judge, apiKey: "${REFERENCE}", structured: never, checks: { topic: false }, retries: 0 }\n`;
  const text = configuration(judge)
    .replace("steps: 4", `steps: ${steps}`)
    .replace("folder: run", `folder: ${name}`);
  await writeFile(path(`${name}.yaml`), text);
  return `${name}.yaml`;
}

const steps = (events: readonly CommandEvent[]) =>
  events.filter(({ event }) => event === "step").map(({ step }) => step);

test("trains as the configuration says, and says how it goes on in plain lines", async () => {
  const { code, stdout, stderr } = await run(["train", "train.yaml", "--set", "run.folder=plain"]);
  expect(stderr).not.toMatch(/error|Warning/i);
  expect(stderr).not.toContain("\u001b");
  expect(code).toBe(0);
  expect(stdout).toMatch(/evaluation after 0 steps, greedy: EM \d\.\d{3}, F1/);
  expect(stdout).toMatch(
    /step 1 of 4 {2}EM \d\.\d{3} {2}reward .*rollout .* \(30 trajectories, .*\/s\).*update .*tokens.*left/,
  );
  expect(stdout).toMatch(/checkpoint of step 4: /);
  expect(stdout).toMatch(/Done: 4 steps in .*best evaluation of this process EM/);
  expect(stdout).not.toContain("\u001b");
  expect(await readdir(path("plain"))).toEqual(
    expect.arrayContaining([
      "checkpoints",
      "config.json",
      "metrics.jsonl",
      "training.yaml",
      "trajectories.jsonl",
    ]),
  );
});

test("the example of docs/command-line.md trains", async () => {
  const docs = await readFile(new URL("../../docs/command-line.md", import.meta.url), "utf8");
  const [, example = ""] = /```yaml\n([\s\S]*?)```/.exec(docs) ?? [];
  await using server = await LoopbackServer.start(slow(0));
  await writeFile(path("example.yaml"), example);
  expect((await run(["index", "corpus.jsonl", "-o", "corpus-index"])).code).toBe(0);
  const { protocol } = parse(configuration());
  const small = {
    "model.folder": "model",
    "judge.baseURL": `${server.origin}/v1`,
    "training.steps": 1,
    "training.questionsPerStep": 4,
    "run.folder": "example",
    protocol: JSON.stringify(protocol),
  };
  const settings = Object.entries(small).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
  const { code, stdout, stderr } = await run(["train", "example.yaml", ...settings], { env });
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/evaluation after 1 steps, greedy/);
  expect(stdout).toMatch(/\(\d+ critiques, 0 failed\)/);
});

test("a run is not written over, and goes on only when asked to", async () => {
  const settings = ["--set", "run.folder=twice", "--set", "training.steps=2"];
  expect((await run(["train", "train.yaml", ...settings])).code).toBe(0);
  const again = await run(["train", "train.yaml", ...settings]);
  expect(again).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/twice holds a run already.*--resume/),
  });
  const more = await run(["train", "train.yaml", ...settings.slice(0, 2), "--resume", "--json"]);
  expect(more.code).toBe(0);
  expect(steps(more.events)).toEqual([2, 3]);
});

test("a checkpoint is evaluated on a file of questions, by its run alone", async () => {
  expect((await run(["train", "train.yaml", "--set", "run.folder=evaluated"])).code).toBe(0);
  const { code, events, stdout } = await run(["eval", "evaluated", "--json"]);
  expect(code, stdout).toBe(0);
  const [report] = events.filter(({ event }) => event === "evaluation");
  const metrics = (await readFile(path("evaluated/metrics.jsonl"), "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const last = metrics.filter(({ kind }) => kind === "evaluation").at(-1);
  expect(report).toMatchObject({ step: 4, exactMatch: last.exactMatch, results: last.results });
  const earlier = await run([
    "eval",
    "evaluated",
    "--checkpoint",
    "2",
    "--questions",
    "train.jsonl",
    "--limit",
    "3",
  ]);
  expect(earlier).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/after 2 training steps[\s\S]*questions +3\n/),
  });
  const missing = await run(["eval", "evaluated", "--checkpoint", "3"]);
  expect(missing).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/no checkpoint 3; there are those of steps 2, 4/),
  });
});

test.skipIf(process.platform === "win32")(
  "a checkpoint that Ctrl-C asks for and that fails is told",
  async () => {
    const { code, events, stderr } = await run(
      ["train", "train.yaml", "--json", "--set", "run.folder=unsaved", "--set", "training.steps=40"],
      {
        onEvent: ({ event, step, phase }, child) => {
          if (event !== "progress" || step !== 2 || phase !== "rollout" || existsSync(path("moved"))) return;
          renameSync(path("unsaved/checkpoints"), path("moved"));
          writeFileSync(path("unsaved/checkpoints"), "");
          child.kill("SIGINT");
        },
      },
    );
    expect(stderr).toMatch(/Cannot list the checkpoints: ENOTDIR/);
    expect(code).toBe(3);
    expect(events.at(-1)).toMatchObject({ event: "error", code: "IO" });
  },
);

test("a damaged checkpoint is not evaluated as the latest", async () => {
  expect((await run(["train", "train.yaml", "--set", "run.folder=bitten"])).code).toBe(0);
  const file = path("bitten/checkpoints/step-00000004/model/model.safetensors");
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 3) ^ 1, bytes.length - 3);
  await writeFile(file, bytes);
  const { code, events, stdout } = await run(["eval", "bitten", "--json"]);
  expect(code, stdout).toBe(0);
  expect(events).toContainEqual({
    event: "warning",
    message: expect.stringMatching(/step-00000004 is skipped: .* damaged/),
  });
  expect(events.find(({ event }) => event === "evaluation")).toMatchObject({ step: 2 });
});

test("a training goes on if its configuration cannot be kept in the run folder", async () => {
  await mkdir(path("nameless/training.yaml"), { recursive: true });
  const { code, stderr } = await run([
    ...["train", "train.yaml", "--set", "run.folder=nameless", "--set", "training.steps=1"],
  ]);
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/Warning: Could not write .*training\.yaml/);
});

test("a judge that never answers is said once, and is not the end", async () => {
  await using server = await LoopbackServer.start((_request, response) =>
    sendJson(response, { error: KEY }, 401),
  );
  const file = await judged(server, "silent", 2);
  const { code, events, stderr } = await run(["train", file, "--json"], { env });
  expect(code, stderr).toBe(0);
  const warnings = events.filter(({ event }) => event === "warning");
  expect(warnings).toMatchObject([
    { message: expect.stringMatching(/all \d+ failed, so it was plain GRPO/) },
  ]);
});

test("a replayed training asks nobody and gives the same weights", async () => {
  await using server = await LoopbackServer.start(slow(0));
  const file = await judged(server, "recorded", 2);
  await appendFile(path(file), "replay: { folder: records, mode: record, corpus: tiny }\n");
  expect((await run(["train", file], { env })).code).toBe(0);
  const asked = server.requests.length;
  expect(asked).toBeGreaterThan(0);
  const again = await run(["train", file, "--replay", "--set", "run.folder=replayed", "--json"], { env });
  expect(again.code, again.stderr).toBe(0);
  expect(server.requests).toHaveLength(asked);
  expect(await weights("replayed", 2)).toBe(await weights("recorded", 2));
  const without = await run(["train", "train.yaml", "--replay"]);
  expect(without).toMatchObject({ code: 2, stderr: expect.stringMatching(/replay\.folder is missing/) });
});

describe("resume", () => {
  test.skipIf(process.platform === "win32")(
    "after Ctrl-C, after a kill, and undisturbed the weights are the same; no key is written anywhere",
    async () => {
      await using server = await LoopbackServer.start(slow(60));
      const [calm, stopped, killed] = [
        await judged(server, "calm", 8),
        await judged(server, "stopped", 8),
        await judged(server, "killed", 8),
      ];
      const undisturbed = await run(["train", calm, "--json"], { env });
      expect(undisturbed.code, undisturbed.stderr).toBe(0);
      expect(steps(undisturbed.events)).toHaveLength(8);

      const first = await run(["train", stopped, "--json"], {
        env,
        onEvent: ({ event, step, phase }, child) => {
          if (event === "progress" && step === 2 && phase === "rollout") child.kill("SIGINT");
        },
      });
      expect(first.code, first.stderr).toBe(130);
      // The step in progress was finished, and saved though no checkpoint was due.
      const saved = first.events.filter(({ event }) => event === "checkpoint").at(-1)?.step;
      expect(saved).toBe((steps(first.events).at(-1) as number) + 1);
      expect(saved).toBeLessThan(8);
      expect(saved % 2).toBe(1);
      expect(first.events.at(-1)).toMatchObject({ event: "stopped", exitCode: 130 });
      const second = await run(["train", stopped, "--json", "--resume"], { env });
      expect(second.code, second.stderr).toBe(0);
      expect(steps(second.events)[0]).toBe(saved);

      const third = await run(["train", killed, "--json"], {
        env,
        onEvent: ({ event, step, phase }, child) => {
          if (event === "progress" && step === 5 && phase === "rollout") child.kill("SIGKILL");
        },
      });
      expect(third.signal).toBe("SIGKILL");
      const fourth = await run(["train", killed, "--json", "--resume"], { env });
      expect(fourth.code, fourth.stderr).toBe(0);
      expect(steps(fourth.events)[0]).toBe(4);

      const expected = await weights("calm", 8);
      expect([await weights("stopped", 8), await weights("killed", 8)]).toEqual([expected, expected]);
      expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
      await expectNowhere(KEY, "calm", undisturbed.stdout + undisturbed.stderr);
    },
  );

  test.skipIf(process.platform === "win32")(
    "a second Ctrl-C stops at once, with the last checkpoint intact",
    async () => {
      let quick = true;
      await using server = await LoopbackServer.start(async (request, response, index) => {
        if (quick) await slow(10)(request, response, index);
      });
      const file = await judged(server, "hasty", 6);
      let asked = 0;
      const first = await run(["train", file, "--json"], {
        env,
        onEvent: ({ event, step, phase, done, total }, child) => {
          if (event === "checkpoint") quick = false;
          if (event !== "progress" || step !== 2 || phase !== "rollout" || done !== total) return;
          // The judge is silent now, so the step cannot be finished.
          asked = performance.now();
          child.kill("SIGINT");
          setTimeout(() => child.kill("SIGINT"), 300);
        },
      });
      expect(first.code, first.stderr).toBe(130);
      expect(performance.now() - asked).toBeLessThan(8_000);
      expect(steps(first.events)).toEqual([0, 1]);
      quick = true;
      const second = await run(["train", file, "--json", "--resume"], { env });
      expect(second.code, second.stderr).toBe(0);
      expect(steps(second.events)).toEqual([2, 3, 4, 5]);
    },
  );
});

async function expectNowhere(secret: string, folder: string, output: string): Promise<void> {
  expect(output).not.toContain(secret);
  const entries = await readdir(path(folder), { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((one) => one.isFile())) {
    expect((await readFile(`${entry.parentPath}/${entry.name}`)).includes(secret), entry.name).toBe(false);
  }
  expect(await readFile(path(folder, "training.yaml"), "utf8")).toContain(REFERENCE);
}

import { cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TINY_JUDGE, TINY_QUESTIONS, warmPolicy } from "../../examples/own-loop/tiny-world.js";
import type { Judge } from "../../lib/judge/judge.js";
import { Policy } from "../../lib/policy/policy.js";
import { exactMatchReward } from "../../lib/reward/reward.js";
import { RunDirectory } from "../../lib/runs/run.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { allWeights, OPTIONS, tinyTrainer } from "../support/tiny-trainer.js";
import { timeless } from "./timeless.js";

const { scratch, fresh, train } = tinyTrainer();

describe("resume", () => {
  test("N steps are k steps, an interruption, and N - k steps, bit for bit", async () => {
    const evaluation = {
      questions: [{ ...TINY_QUESTIONS[0], question: "colour of bob of ann ?" }],
      every: 2,
    } as never;
    const options = { steps: 6, checkpointEvery: 2, keepCheckpoints: 1, evaluation };
    const whole = await train({ ...options, runFolder: scratch("whole") });

    const runFolder = scratch("resumed");
    const interrupted = new HindSearchTrainer({ ...OPTIONS, ...options, runFolder, policy: await fresh() });
    for await (const { step } of interrupted) if (step === 4) break;
    // Two steps behind the checkpoint of step 4 were lost: they are made again, and their records too.
    const resumed = await train({ ...options, runFolder, resume: true });
    expect(resumed.results.map(({ step }) => step)).toEqual([4, 5]);
    expect(resumed.weights).toEqual(whole.weights);
    for (const log of ["metrics", "trajectories"]) {
      const read = async (run: string) =>
        (await readFile(scratch(run, `${log}.jsonl`), "utf8"))
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line));
      expect(timeless(await read("resumed"))).toEqual(timeless(await read("whole")));
    }
  });

  test("a checkpoint's model folder loads and is the policy", async () => {
    const runFolder = scratch("saved");
    const { policy, results } = await train({ runFolder, steps: 2 });
    const folder = results.at(-1)?.checkpoint?.folder ?? "";
    using loaded = await Policy.load(join(folder, "model"), { compute: "f32" });
    expect(await allWeights(loaded)).toEqual(await allWeights(policy));
  });

  test("the plan says what a checkpoint takes, and how many there are", async () => {
    const runFolder = scratch("planned");
    const policy = await fresh();
    const plan = (options: object) => new HindSearchTrainer({ ...OPTIONS, policy, ...options }).plan();
    const [, gigabytes] =
      /planned; a checkpoint of (\S+) GB after every step, 2 kept/.exec(plan({ runFolder })) ?? [];
    expect(plan({ runFolder, checkpointEvery: 7 })).toMatch(/after every 7 steps, 2 kept/);
    expect(plan({ runFolder, checkpointEvery: 0 })).toMatch(/no checkpoints: what is killed is lost/);
    expect(plan({})).toMatch(/run folder: +none/);
    const { results } = await train({ runFolder, steps: 1 });
    const folder = results[0]?.checkpoint?.folder ?? "";
    const sizes = await Promise.all(
      ["model/model.safetensors", "optimizer.safetensors"].map(
        async (name) => (await stat(join(folder, name))).size,
      ),
    );
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(Number(gigabytes) * 1e9).toBeGreaterThan(0.9 * bytes);
    expect(Number(gigabytes) * 1e9).toBeLessThan(1.1 * bytes);
  });

  test("a damaged checkpoint is skipped, said so, and the one before it is used; without one the run is refused", async () => {
    const runFolder = scratch("damaged");
    const options = { steps: 4, keepCheckpoints: 2 };
    const whole = await train({ ...options, runFolder });
    const checkpoints = join(runFolder, "checkpoints");
    const weights = join(checkpoints, "step-00000004", "optimizer.safetensors");
    const bytes = await readFile(weights);
    bytes[bytes.length - 1000] = (bytes[bytes.length - 1000] as number) ^ 1;
    await writeFile(weights, bytes);
    const warnings: string[] = [];
    const resumed = await train({
      ...options,
      runFolder,
      resume: true,
      onWarning: (text) => warnings.push(text),
    });
    expect(warnings).toEqual([
      expect.stringMatching(/step-00000004 is skipped: its file optimizer.safetensors is damaged/),
    ]);
    expect(resumed.results.map(({ step }) => step)).toEqual([3]);
    expect(resumed.weights).toEqual(whole.weights);

    const trajectories = await readFile(join(runFolder, "trajectories.jsonl"), "utf8");
    await writeFile(join(checkpoints, "step-00000003", "trainer.json"), "{}");
    await writeFile(join(checkpoints, "step-00000004", "trainer.json"), "{}");
    const again = () => train({ ...options, runFolder, resume: true, onWarning: () => {} });
    await expect(again()).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    expect(await readFile(join(runFolder, "trajectories.jsonl"), "utf8")).toBe(trajectories);
    await rm(checkpoints, { recursive: true });
    await writeFile(checkpoints, "");
    await expect(again()).rejects.toMatchObject({ code: "IO" });
  });

  test("a state that does not fit its checkpoint is refused", async () => {
    const runFolder = scratch("unfit");
    await train({ runFolder, steps: 1 });
    const run = await RunDirectory.open(runFolder);
    const latest = await run.checkpoints.latest();
    for (const state of ["null", '{"version":1,"step":7}', '{"version":2,"step":1}', "["]) {
      await run.checkpoint(1, async (folder) => {
        await cp(latest?.folder ?? "", folder, { recursive: true });
        await writeFile(join(folder, "trainer.json"), state);
      });
      await run.close();
      const again = train({ runFolder, steps: 2, resume: true });
      await expect(again).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    }
  });

  test("the best checkpoint by its evaluation is kept beside the newest, and one is written for it", async () => {
    const runFolder = scratch("best");
    const questions = [{ id: "q", question: "colour of ann of ann ?", goldAnswers: ["red"] }];
    const { results } = await train({
      ...{ runFolder, steps: 6, checkpointEvery: 4, keepCheckpoints: 1, keepBest: "f1" },
      evaluation: { questions, every: 1, modes: ["sampled", "greedy"] },
    });
    const scores = results.map(
      ({ evaluations }) =>
        evaluations.find(({ stepsDone, mode }) => stepsDone > 0 && mode === "sampled")?.report.f1 ?? 0,
    );
    const bestStep = scores.indexOf(Math.max(...scores)) + 1;
    const { checkpoints } = await RunDirectory.open(runFolder);
    expect(await checkpoints.best()).toMatchObject({ step: bestStep, score: Math.max(...scores) });
    expect((await checkpoints.list()).map(({ step }) => step)).toEqual([...new Set([bestStep, 6])]);
  });

  test("another initial policy is refused: it would be another teacher", async () => {
    const runFolder = scratch("other-teacher");
    await train({ runFolder, steps: 2 });
    using other = await warmPolicy(2, 5);
    const resumed = train({ runFolder, steps: 3, resume: true, policy: other });
    await expect(resumed).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test("a run is not overwritten; resume starts one that is not there", async () => {
    const runFolder = scratch("kept");
    const warnings: string[] = [];
    await train({ runFolder, steps: 1, resume: true, onWarning: (text) => warnings.push(text) });
    expect(warnings).toEqual([]);
    await expect(train({ runFolder, steps: 1 })).rejects.toThrow(/already holds a run/);
  });

  test("other settings are refused, each by its name, and nothing is changed; those that change nothing are allowed", async () => {
    const runFolder = scratch("changed");
    await train({ runFolder, steps: 2 });
    const contents = async () => ({
      config: await readFile(join(runFolder, "config.json"), "utf8"),
      metrics: await readFile(join(runFolder, "metrics.jsonl"), "utf8"),
    });
    const before = await contents();
    const warnings: string[] = [];
    const onWarning = (text: string) => warnings.push(text);
    const questions = TINY_QUESTIONS.slice(1);
    const changed = { steps: 3, groupSize: 3, distillation: { weight: 0.25 }, questions, onWarning };
    const policy = await fresh();
    const weights = await allWeights(policy);
    await expect(train({ runFolder, ...changed, resume: true, policy })).rejects.toMatchObject({
      code: "RUN_MISMATCH",
      message: expect.stringMatching(
        /: groupSize was 5 and is 3; distillation\.term\.weight was 0\.5 and is 0\.25; questionCount was 8 and is 7; questionsHash was/,
      ),
    });
    expect(await contents()).toEqual(before);
    expect(await allWeights(policy)).toEqual(weights);
    expect(warnings).toEqual([]);

    const more = await train({ runFolder, steps: 3, measureEvery: 0, resume: true, onWarning });
    expect(more.results.map(({ step }) => step)).toEqual([2]);
    expect(warnings).toEqual([
      "The run goes on with other settings than before: steps was 2 and is 3; measureEvery was 2 and is 0.",
    ]);
    await train({ runFolder, ...changed, steps: 4, resume: "with-other-settings", onWarning });
    expect(JSON.parse((await contents()).config)).toMatchObject({ steps: 4, groupSize: 3 });
    const former = await readFile(join(runFolder, "config.until-step-00000003.json"), "utf8");
    expect(JSON.parse(former)).toMatchObject({ steps: 3, groupSize: 5 });
  });

  test("a judge of another kind does not take over the figures and the budget of the one before", async () => {
    const restored: unknown[] = [];
    class First implements Judge {
      critique = TINY_JUDGE.critique.bind(TINY_JUDGE);
      state = () => "of the first";
      restore = (state: unknown) => restored.push(state);
    }
    class Second extends First {
      override state = () => "of the second";
    }
    const runFolder = scratch("judges");
    await train({ steps: 1, runFolder, judge: new First() });
    await train({ steps: 2, runFolder, judge: new First(), resume: true });
    expect(restored).toEqual(["of the first"]);
    await train({ steps: 3, runFolder, judge: new Second(), resume: true, onWarning: () => {} });
    await train({ steps: 4, runFolder, judge: new Second(), resume: true, onWarning: () => {} });
    expect(restored).toEqual(["of the first", "of the second"]);
  });

  test("a setting that is redacted in config.json is no other setting", async () => {
    const runFolder = scratch("redacted");
    const reward = { ...exactMatchReward(), name: "sk-abcdefghijklmnopqrstuvwxyz" };
    await train({ runFolder, steps: 1, reward });
    expect(await readFile(join(runFolder, "config.json"), "utf8")).not.toContain(reward.name);
    const { results } = await train({ runFolder, steps: 2, reward, resume: true, onWarning: () => {} });
    expect(results.map(({ step }) => step)).toEqual([1]);
  });

  test("two trainers on one folder: the second is refused, the first goes on", async () => {
    const runFolder = scratch("two");
    const first = new HindSearchTrainer({ ...OPTIONS, steps: 2, runFolder, policy: await fresh() });
    const done: number[] = [];
    for await (const { step } of first) {
      done.push(step);
      const second = train({ runFolder, steps: 2, resume: true });
      await expect(second).rejects.toMatchObject({ code: "RUN_LOCKED" });
    }
    expect(done).toEqual([0, 1]);
    expect((await train({ runFolder, steps: 3, resume: true, onWarning: () => {} })).results.length).toBe(1);
  });
});

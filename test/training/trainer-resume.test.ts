import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TINY_QUESTIONS, warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { Policy } from "../../lib/policy/policy.js";
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

  test("damaged state is refused or skipped, with the reason", async () => {
    const runFolder = scratch("damaged");
    await train({ runFolder, steps: 2, checkpointEvery: 1, keepCheckpoints: 1 });
    const checkpoints = join(runFolder, "checkpoints");
    const file = join(checkpoints, "step-00000002", "trainer.json");
    const marker = join(checkpoints, "step-00000002", "complete.json");
    const text = await readFile(file, "utf8");
    const again = () => train({ runFolder, steps: 3, resume: true, onWarning: () => {} });
    for (const state of [text.replace('"step": 2', '"step": 1'), "null".padEnd(text.length)]) {
      await writeFile(file, state);
      await expect(again()).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    }
    await writeFile(marker, "null");
    expect((await again()).results.map(({ step }) => step)).toEqual([0, 1, 2]);
    await rm(checkpoints, { recursive: true });
    await writeFile(checkpoints, "");
    await expect(again()).rejects.toMatchObject({ code: "IO" });
    await writeFile(join(runFolder, "config.json"), "null");
    await expect(again()).rejects.toMatchObject({ code: "IO" });
  });

  test("another initial policy is refused: it would be another teacher", async () => {
    const runFolder = scratch("other-teacher");
    await train({ runFolder, steps: 2 });
    using other = await warmPolicy(2, 5);
    const resumed = train({ runFolder, steps: 3, resume: true, policy: other });
    await expect(resumed).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
  });

  test("other settings are allowed and named; a run is not overwritten; resume starts one that is not there", async () => {
    const runFolder = scratch("changed");
    const warnings: string[] = [];
    const onWarning = (text: string) => warnings.push(text);
    await train({ runFolder, steps: 1, resume: true, onWarning });
    expect(warnings).toEqual([]);
    await expect(train({ runFolder, steps: 1 })).rejects.toThrow(/already holds a run/);
    await train({ runFolder, steps: 2, groupSize: 3, resume: true, onWarning });
    expect(warnings).toEqual([expect.stringMatching(/other settings than it started with: .*groupSize/)]);
  });
});

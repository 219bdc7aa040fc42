import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { Random } from "../../lib/data/random.js";
import { RunDirectory } from "../../lib/runs/run.js";
import { timeless } from "../training/timeless.js";

const STEPS = 40;
const KILLS = 20;
/** Operations on files that writing a checkpoint, pruning included, takes about. */
const OPERATIONS = 60;

const repository = resolve(import.meta.dirname, "../..");
/** Two levels below the repository, where the package finds its binary. */
const program = join(repository, "build", `kill-test-${process.pid}`);
let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-kill-"));
  using policy = await warmPolicy();
  await policy.save(join(root, "warm"));
  // One file starts in a third of the time that the sources need.
  await build({
    configFile: false,
    logLevel: "error",
    resolve: { alias: { hindsearch: join(repository, "lib/index.ts") } },
    build: {
      ssr: join(import.meta.dirname, "kill.child.ts"),
      outDir: program,
      target: "node20",
      rolldownOptions: { output: { entryFileNames: "[name].js", chunkFileNames: "[name].js" } },
    },
  });
});
afterAll(async () => {
  await rm(root, { recursive: true, force: true });
  await rm(program, { recursive: true, force: true });
});

interface Outcome {
  killed: boolean;
  /** Steps that the process said were done. */
  done: number;
  /** Hash of the weights; absent if the process did not come to its end. */
  weights: string | undefined;
}

/** Goes on with the run, until it ends, or is killed so many milliseconds after it has begun, or before an operation. */
function goOn(runFolder: string, kill: { after?: number; operation?: number } = {}): Promise<Outcome> {
  return new Promise((resolve, fail) => {
    const { after, operation = 0 } = kill;
    const parts = [join(program, "kill.child.js"), runFolder, join(root, "warm"), `${STEPS}`, `${operation}`];
    const child = spawn(process.execPath, parts, { stdio: ["ignore", "pipe", "pipe"] });
    let [output, errors] = ["", ""];
    child.stderr.on("data", (data) => {
      errors += data;
    });
    child.stdout.on("data", (data) => {
      if (output === "" && after !== undefined) setTimeout(() => child.kill("SIGKILL"), after);
      output += data;
    });
    child.on("close", (code, signal) => {
      if (signal !== "SIGKILL" && code !== 0) return fail(new Error(`ended with code ${code}: ${errors}`));
      const done = [...output.matchAll(/done (\d+)\n/g)].map((match) => Number(match[1]));
      const weights = /weights (\w+)\n/.exec(output)?.[1];
      resolve({ killed: signal === "SIGKILL", done: done.at(-1) ?? 0, weights });
    });
  });
}

async function metricsOf(runFolder: string): Promise<unknown> {
  const text = await readFile(join(runFolder, "metrics.jsonl"), "utf8");
  return timeless(
    text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line)),
  );
}

test("killed at any moment, a training loses no more than the step in progress, and ends with the same weights", async () => {
  const whole = join(root, "whole");
  const { weights } = await goOn(whole);
  expect(weights).toMatch(/^\w{64}$/);
  const metrics = await metricsOf(whole);

  const random = new Random(11);
  const reached: number[] = [];
  let runs = 0;
  let kills = 0;
  let runFolder = join(root, "killed-0");
  const finish = async () => {
    expect((await goOn(runFolder)).weights).toBe(weights);
    expect(await metricsOf(runFolder)).toEqual(metrics);
  };
  while (kills < KILLS) {
    // Half of them anywhere, from before the first step on; half of them within the writing of a checkpoint.
    const aimed = kills % 2 === 1;
    const kill = aimed ? { operation: 1 + random.integer(OPERATIONS) } : { after: random.integer(250) };
    const { killed, done, weights: end } = await goOn(runFolder, kill);
    if (!killed) {
      expect(end).toBe(weights);
      await finish();
      runFolder = join(root, `killed-${++runs}`);
      continue;
    }
    kills++;
    if (!(await RunDirectory.exists(runFolder))) continue;
    const run = await RunDirectory.open(runFolder, () => {});
    const latest = (await run.checkpoints.latest())?.step ?? 0;
    expect(latest).toBeGreaterThanOrEqual(done);
    reached.push(latest);
  }
  await finish();
  expect(reached.some((step) => step > 0)).toBe(true);
}, 180_000);

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunDirectory } from "../../lib/runs/run.js";

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-kill-"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** Runs the writer and kills it `milliseconds` after it has begun; the step it began with. */
function writeUntilKilled(folder: string, milliseconds: number): Promise<number> {
  return new Promise((done, fail) => {
    const script = resolve(import.meta.dirname, "kill.child.ts");
    const child = spawn(process.execPath, ["--import", "tsx", script, folder]);
    let first: number | undefined;
    let errors = "";
    child.stderr.on("data", (data) => {
      errors += data;
    });
    child.stdout.on("data", (data) => {
      first = Number(/from (\d+)/.exec(String(data))?.[1]);
      setTimeout(() => child.kill("SIGKILL"), milliseconds);
    });
    child.on("exit", (code, signal) => {
      if (signal === "SIGKILL" && first !== undefined) done(first);
      else fail(new Error(`writer ended by itself with code ${code}: ${errors}`));
    });
  });
}

test("killed at any moment, a run has its last checkpoint whole and goes on from there", async () => {
  const folder = join(root, "run");
  let reached = 0;
  for (const milliseconds of [120, 37, 61, 83, 149, 53]) {
    const first = await writeUntilKilled(folder, milliseconds);
    expect(first).toBe(reached);
    const run = await RunDirectory.open(folder, () => {});
    const latest = await run.checkpoints.latest();
    reached = latest?.step ?? 0;
    expect(reached).toBeGreaterThanOrEqual(first);
    if (latest) {
      const weights = await readFile(join(latest.folder, "weights.bin"));
      expect(weights.equals(Buffer.alloc(2_000_000, (reached - 1) % 251))).toBe(true);
      expect(JSON.parse(await readFile(join(latest.folder, "state.json"), "utf8"))).toEqual({
        step: reached,
      });
    }
    const steps: number[] = [];
    for await (const { step } of run.read("metrics")) steps.push(step);
    expect(steps).toEqual(steps.map((_, i) => i));
    expect(steps.length).toBeGreaterThanOrEqual(reached);
  }
  expect(reached).toBeGreaterThan(0);
});

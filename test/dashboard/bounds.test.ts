import { execFileSync } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunCollection } from "../../lib/dashboard/run-collection.js";
import { evaluationOf, lines, recordOf, stepOf, writeRun } from "./run-files.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-bounds-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A run, made hostile; and a good one beside it, which must be shown as ever. */
async function problemsOf(name: string, harm: (run: string) => Promise<unknown>): Promise<string[]> {
  const place = join(folder, name);
  await writeRun(join(place, "good"), [stepOf(0), evaluationOf(1, [1])], [recordOf("0-0-0")]);
  const run = await writeRun(join(place, "run"), [stepOf(0), evaluationOf(1, [1])], [recordOf("0-0-0")]);
  await harm(run);
  const collection = new RunCollection([place]);
  await collection.refresh();
  const { runs } = await collection.summaries();
  expect(runs.map(({ id }) => id)).toEqual(["good", "run"]);
  expect(runs[0]).toMatchObject({ stepsDone: 1, problems: [] });
  return runs[1]?.problems ?? [];
}

test("settings of many megabytes are not read", async () => {
  const problems = await problemsOf("large", (run) =>
    writeFile(join(run, "config.json"), `{"steps":1,"x":"${"x".repeat(2 ** 23)}"}`),
  );
  expect(problems).toEqual([
    expect.stringMatching(/config\.json cannot be read as JSON: it has \d+ bytes, exp/),
  ]);
});

test("settings nested without end are no settings", async () => {
  const nested = "[".repeat(1_000_000) + "]".repeat(1_000_000);
  const problems = await problemsOf("nested", (run) => writeFile(join(run, "config.json"), nested));
  expect(problems).toEqual(["config.json holds no settings: Maximum call stack size exceeded."]);
});

test.skipIf(process.platform === "win32")(
  "a device and a pipe are refused, and nothing waits for them",
  async () => {
    expect(
      await problemsOf("device", async (run) => {
        await rm(join(run, "config.json"));
        await symlink("/dev/zero", join(run, "config.json"));
      }),
    ).toEqual([expect.stringMatching(/config\.json is not a regular file/)]);
    expect(
      await problemsOf("pipe", async (run) => {
        await rm(join(run, "metrics.jsonl"));
        execFileSync("mkfifo", [join(run, "metrics.jsonl")]);
      }),
    ).toEqual([expect.stringMatching(/metrics\.jsonl is not a regular file/)]);
  },
);

test("steps and evaluations without end are cut, and the run says so", async () => {
  const steps = Array.from({ length: 100_050 }, (_, step) => ({ kind: "step", step }));
  expect(await problemsOf("steps", (run) => writeFile(join(run, "metrics.jsonl"), lines(steps)))).toEqual([
    "50 records of metrics.jsonl are more than are shown",
  ]);
  const modes = Array.from({ length: 30 }, (_, i) => evaluationOf(1, [1], `mode ${i}`));
  expect(await problemsOf("modes", (run) => writeFile(join(run, "metrics.jsonl"), lines(modes)))).toEqual([
    "20 records of metrics.jsonl are more than are shown",
  ]);
});

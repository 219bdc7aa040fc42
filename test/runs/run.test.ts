import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RunDirectory, type RunRecord } from "../../lib/runs/run.js";

let folder: string;
let warnings: string[];
const warn = (text: string) => warnings.push(text);

beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), "hindsearch-run-")), "run");
  warnings = [];
});
afterEach(() => rm(join(folder, ".."), { recursive: true, force: true }));

async function all(run: RunDirectory, log: "metrics" | "trajectories"): Promise<RunRecord[]> {
  const records: RunRecord[] = [];
  for await (const record of run.read(log)) records.push(record);
  return records;
}

describe("logs", () => {
  test("lines are appended whole and in order, whoever calls", async () => {
    const run = await RunDirectory.create(folder, {});
    const long = "x".repeat(100_000);
    await Promise.all(Array.from({ length: 50 }, (_, step) => run.append("metrics", [{ step, long }])));
    const records = await all(run, "metrics");
    expect(records.map(({ step }) => step)).toEqual([...Array(50).keys()]);
    expect(records.every((record) => record.long === long)).toBe(true);
    expect(await all(run, "trajectories")).toEqual([]);
  });

  test("numbers that JSON has none of become null", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 0, gap: Number.NaN, worst: Number.NEGATIVE_INFINITY }]);
    expect(await all(run, "metrics")).toEqual([{ step: 0, gap: null, worst: null }]);
  });

  test("rewinding drops the steps that a resumed run makes again, and a line that was cut off", async () => {
    const run = await RunDirectory.create(folder, {});
    for (let step = 0; step < 5; step++) {
      await run.append("metrics", [{ step }]);
      await run.append("trajectories", [
        { step, a: 1 },
        { step, a: 2 },
      ]);
    }
    await appendFile(join(folder, "metrics.jsonl"), '{"step": 5, "los');
    const again = await RunDirectory.open(folder);
    await again.rewind(3);
    expect((await all(again, "metrics")).map(({ step }) => step)).toEqual([0, 1, 2]);
    expect((await all(again, "trajectories")).map(({ step }) => step)).toEqual([0, 0, 1, 1, 2, 2]);
    await again.append("metrics", [{ step: 3 }]);
    expect((await all(again, "metrics")).map(({ step }) => step)).toEqual([0, 1, 2, 3]);
    expect((await readdir(folder)).sort()).toEqual([
      "checkpoints",
      "config.json",
      "metrics.jsonl",
      "trajectories.jsonl",
    ]);
  });

  test("a line that was cut off does not swallow the next one", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 0 }]);
    await appendFile(join(folder, "metrics.jsonl"), `{"step":1,"x":"${"y".repeat(200_000)}`);
    await appendFile(join(folder, "trajectories.jsonl"), '{"step":');
    const opened = await RunDirectory.open(folder);
    for (const step of [1, 2]) {
      await opened.append("metrics", [{ step }]);
      await opened.append("trajectories", [{ step }]);
    }
    expect(await all(opened, "metrics")).toEqual([{ step: 0 }, { step: 1 }, { step: 2 }]);
    expect(await all(opened, "trajectories")).toEqual([{ step: 1 }, { step: 2 }]);
  });

  test("a damaged line in the middle is an error, not skipped", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 0 }]);
    await appendFile(join(folder, "metrics.jsonl"), "garbage\n");
    await run.append("metrics", [{ step: 1 }]);
    await expect(all(run, "metrics")).rejects.toThrow(/line 2 is no JSON/);
  });

  test("a failed write rejects, and the next one goes on", async () => {
    const run = await RunDirectory.create(folder, {});
    await mkdir(join(folder, "metrics.jsonl"));
    await expect(run.append("metrics", [{ step: 0 }])).rejects.toMatchObject({ code: "IO" });
    await rm(join(folder, "metrics.jsonl"), { recursive: true });
    await run.append("metrics", [{ step: 1 }]);
    expect(await all(run, "metrics")).toEqual([{ step: 1 }]);
  });
});

describe("config.json", () => {
  test("holds the settings without their secrets", async () => {
    const config = {
      seed: 7,
      stream: 2n ** 60n,
      maxTokens: 4096,
      token: "abc",
      judge: {
        url: "https://user:pass@judge.example/v1",
        apiKey: "k",
        model: "m",
        headers: [{ Authorization: "Bearer abcdefghijkl" }],
        note: "use sk-abcdefghijklmnop1234 or Bearer abcdefgh12345",
      },
    };
    const run = await RunDirectory.create(folder, config);
    expect(await run.config()).toEqual({
      seed: 7,
      stream: String(2n ** 60n),
      maxTokens: 4096,
      token: "[redacted]",
      judge: {
        url: "https://[redacted]@judge.example/v1",
        apiKey: "[redacted]",
        model: "m",
        headers: [{ Authorization: "[redacted]" }],
        note: "use [redacted] or Bearer [redacted]",
      },
    });
  });

  test("a folder that holds a run is not overwritten, one without is not opened", async () => {
    await expect(RunDirectory.open(folder)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await RunDirectory.create(folder, { seed: 1 });
    await expect(RunDirectory.create(folder, { seed: 2 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(await (await RunDirectory.open(folder)).config()).toEqual({ seed: 1 });
  });
});

describe("checkpoints", () => {
  const write = (text: string) => async (path: string) => {
    await mkdir(join(path, "model"));
    await writeFile(join(path, "model", "weights.bin"), text);
    await writeFile(join(path, "state.json"), "{}");
  };

  test("the latest complete one is found", async () => {
    const run = await RunDirectory.create(folder, {});
    expect(await run.checkpoints.latest()).toBeUndefined();
    await run.checkpoint(2, write("a"));
    await run.checkpoint(10, write("b"));
    const latest = await (await RunDirectory.open(folder)).checkpoints.latest();
    expect(latest).toMatchObject({ step: 10 });
    expect(await readFile(join(latest?.folder ?? "", "model", "weights.bin"), "utf8")).toBe("b");
  });

  test("a write that fails leaves the one before it and nothing else", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.checkpoint(1, write("a"));
    const crash = new RangeError("no");
    const failing = async (path: string) => {
      await write("b")(path);
      throw crash;
    };
    await expect(run.checkpoint(2, failing)).rejects.toBe(crash);
    await expect(run.checkpoint(1, failing)).rejects.toBe(crash);
    expect(await readdir(join(folder, "checkpoints"))).toEqual(["step-00000001"]);
    expect(await run.checkpoints.latest()).toMatchObject({ step: 1 });
  });

  test("partial ones are skipped with a warning", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    const good = await run.checkpoint(1, write("a"));
    const [short, unmarked, gone] = await Promise.all(
      [5, 6, 7].map((step) => run.checkpoint(step, write("abc"))),
    );
    await truncate(join(short?.folder ?? "", "model", "weights.bin"), 1);
    await rm(join(unmarked?.folder ?? "", "complete.json"));
    await rm(join(gone?.folder ?? "", "state.json"));
    await mkdir(join(folder, "checkpoints", "step-00000009.partial"));
    expect(await run.checkpoints.latest()).toEqual(good);
    expect(warnings.length).toBe(4);
    expect(warnings.join("\n")).toMatch(/weights\.bin has 1 bytes instead of 3/);
    expect(warnings.join("\n")).toMatch(/no readable complete\.json/);
  });

  test("a step that is none is refused", async () => {
    const run = await RunDirectory.create(folder, {});
    for (const step of [-1, 1.5, Number.NaN]) {
      await expect(run.checkpoint(step, async () => {})).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });

  test("pruning keeps the newest", async () => {
    const run = await RunDirectory.create(folder, {});
    for (const step of [1, 2, 3, 20]) await run.checkpoint(step, write("a"));
    await run.checkpoints.prune(2);
    expect((await run.checkpoints.list()).map(({ step }) => step)).toEqual([3, 20]);
  });
});

import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunRecord } from "../../lib/runs/log-file.js";
import { RunDirectory } from "../../lib/runs/run.js";

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
    await run.close();
    const again = await RunDirectory.open(folder, warn);
    await again.rewind(3);
    expect(warnings).toEqual([expect.stringMatching(/metrics\.jsonl ended in a line cut off or damaged/)]);
    expect((await all(again, "metrics")).map(({ step }) => step)).toEqual([0, 1, 2]);
    expect((await all(again, "trajectories")).map(({ step }) => step)).toEqual([0, 0, 1, 1, 2, 2]);
    await again.append("metrics", [{ step: 3 }]);
    expect((await all(again, "metrics")).map(({ step }) => step)).toEqual([0, 1, 2, 3]);
    expect((await readdir(folder)).sort()).toEqual([
      "checkpoints",
      "config.json",
      "lock",
      "metrics.jsonl",
      "run.json",
      "trajectories.jsonl",
    ]);
  });

  test("rewinding drops damage behind the checkpoint, and none before it", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    for (let step = 0; step < 3; step++) await run.append("metrics", [{ step, text: "x".repeat(70_000) }]);
    const file = join(folder, "metrics.jsonl");
    await appendFile(file, "\0\0\0\n");
    await appendFile(file, '{"step":3}\n{"step":4}');
    await run.rewind(2);
    expect((await all(run, "metrics")).map(({ step }) => step)).toEqual([0, 1]);
    expect(warnings).toEqual([expect.stringMatching(/ended in 2 lines cut off or damaged/)]);
    await writeFile(file, "garbage\n");
    await appendFile(file, '{"step":5}\n');
    await run.rewind(7);
    await expect(all(run, "metrics")).rejects.toMatchObject({ code: "INVALID_DATA" });
    await run.rewind(0);
    expect(await readFile(file, "utf8")).toBe("");
  });

  test("text that holds other line separators is one line", async () => {
    const run = await RunDirectory.create(folder, {});
    const text = "a\u2028b\u2029c\u0085d\re\vf";
    await run.append("trajectories", [{ step: 0, text }]);
    await run.append("trajectories", [{ step: 1, text }]);
    await run.close();
    const again = await RunDirectory.open(folder);
    expect(await all(again, "trajectories")).toEqual([
      { step: 0, text },
      { step: 1, text },
    ]);
    await again.rewind(1);
    expect(await all(again, "trajectories")).toEqual([{ step: 0, text }]);
  });

  test("a reader beside the writer leaves out the line that is being written", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 0 }]);
    const reader = await RunDirectory.open(folder, warn);
    // Whole but for its line feed: the next read has it.
    await appendFile(join(folder, "metrics.jsonl"), '{"step":1}');
    expect(await all(reader, "metrics")).toEqual([{ step: 0 }]);
    expect(warnings).toEqual([expect.stringMatching(/ends in a line that was cut off/)]);
    await appendFile(join(folder, "metrics.jsonl"), "\n");
    expect(await all(reader, "metrics")).toEqual([{ step: 0 }, { step: 1 }]);
  });

  test("records of an earlier step than the last are refused, also after the run was opened again", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 3 }, { step: 3 }]);
    const refused = { code: "INVALID_ARGUMENT", message: expect.stringMatching(/order of their steps/) };
    await expect(run.append("metrics", [{ step: 4 }, { step: 3 }])).rejects.toMatchObject(refused);
    await run.close();
    const again = await RunDirectory.open(folder);
    await expect(again.append("metrics", [{ step: 2 }])).rejects.toMatchObject(refused);
    await again.append("metrics", [{ step: 3 }]);
    expect((await all(again, "metrics")).length).toBe(3);
  });

  test("a line that was cut off does not swallow the next one", async () => {
    const run = await RunDirectory.create(folder, {});
    await run.append("metrics", [{ step: 0 }]);
    await appendFile(join(folder, "metrics.jsonl"), `{"step":1,"x":"${"y".repeat(200_000)}`);
    await appendFile(join(folder, "trajectories.jsonl"), '{"step":');
    await run.close();
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
    await expect(all(run, "metrics")).rejects.toThrow(/line 2: no JSON record/);
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

  test("settings that the run went on without are kept", async () => {
    const run = await RunDirectory.create(folder, { seed: 1 });
    await run.writeConfig({ seed: 2, apiKey: "k" }, 40);
    await run.writeConfig({ seed: 3 }, 40);
    expect(await run.config()).toEqual({ seed: 3 });
    const former = await readFile(join(folder, "config.until-step-00000040.json"), "utf8");
    expect(JSON.parse(former)).toEqual({ seed: 1 });
  });
});

describe("run.json", () => {
  test("names the run, the same whenever it is opened", async () => {
    const run = await RunDirectory.create(folder, {});
    const { id, created } = await RunDirectory.open(folder);
    expect({ id, created }).toEqual({ id: run.id, created: run.created });
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(Date.parse(created)).toBeGreaterThan(Date.now() - 60_000);
  });

  test("of a newer version is refused, and so is one that is none", async () => {
    const run = await RunDirectory.create(folder, {});
    const file = join(folder, "run.json");
    await writeFile(file, JSON.stringify({ version: 2, id: run.id, created: run.created }));
    await expect(RunDirectory.open(folder)).rejects.toMatchObject({ code: "RUN_MISMATCH" });
    for (const text of ["null", "{}", '{"version":1', ""]) {
      await writeFile(file, text);
      await expect(RunDirectory.open(folder)).rejects.toMatchObject({ code: "IO" });
    }
  });
});

test("whoever waits for the lock of a process that cannot be looked up can give up", async () => {
  await mkdir(folder);
  await writeFile(join(folder, "lock"), "damaged");
  const waiting = new AbortController();
  const created = RunDirectory.create(folder, {}, () => waiting.abort(), { signal: waiting.signal });
  await expect(created).rejects.toMatchObject({ code: "ABORTED" });
  expect(await readdir(folder)).not.toContain("config.json");
});

test.skipIf(process.platform !== "linux")("a place that can hold no folders is refused", async () => {
  for (const place of ["/proc/run", "/proc/runs/run"]) {
    await expect(RunDirectory.create(place, {})).rejects.toMatchObject({
      code: "IO",
      message: expect.stringMatching(/make the run folder .*no folder can be made in .proc\./),
    });
  }
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
    const [short, unmarked, gone, changed, foreign] = [
      await run.checkpoint(5, write("abc")),
      await run.checkpoint(6, write("abc")),
      await run.checkpoint(7, write("abc")),
      await run.checkpoint(8, write("abc")),
      await run.checkpoint(9, write("abc")),
    ];
    await truncate(join(short.folder, "model", "weights.bin"), 1);
    await rm(join(unmarked.folder, "complete.json"));
    await rm(join(gone.folder, "state.json"));
    await writeFile(join(changed.folder, "model", "weights.bin"), "abd");
    const marker = join(foreign.folder, "complete.json");
    await writeFile(marker, (await readFile(marker, "utf8")).replace("state.json", "../../config.json"));
    await mkdir(join(folder, "checkpoints", "step-00000010.partial"));
    await mkdir(join(folder, "checkpoints", "notes"));
    expect(await run.checkpoints.latest()).toEqual(good);
    expect(await run.checkpoints.latest()).toEqual(good);
    expect(warnings.map((warning) => warning.replace(/^.*checkpoints./, "")).sort()).toEqual([
      "notes is skipped: its name is not step-NNNNNNNN.",
      "step-00000005 is skipped: its file model/weights.bin has 1 bytes instead of 3.",
      "step-00000006 is skipped: it has no readable complete.json, so it was not written to its end.",
      "step-00000007 is skipped: its file state.json is missing.",
      expect.stringMatching(
        /^step-00000008 is skipped: its file model.weights.bin is damaged: checksum \w+ instead of \w+/,
      ),
      "step-00000009 is skipped: its complete.json is not that of step 9.",
      "step-00000010.partial is skipped: it was not written to its end.",
    ]);
  });

  test("the best one and one of a step are refused if they are damaged, and no other one is taken", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    const best = await run.checkpoint(1, write("abc"), 0.75);
    await run.checkpoint(2, write("abc"), 0.5);
    expect(await run.checkpoints.best()).toEqual(best);
    expect(await run.checkpoints.at(1)).toEqual(best);
    expect(await run.checkpoints.at(3)).toBeUndefined();
    const weights = join(best.folder, "model", "weights.bin");
    for (const [damaged, reason] of [
      ["abd", /checkpoints.step-00000001 cannot be used: its file model.weights.bin is damaged: checksum/],
      ["ab", /has 2 bytes instead of 3/],
    ] as const) {
      await writeFile(weights, damaged);
      const refused = { code: "INVALID_CHECKPOINT", message: expect.stringMatching(reason) };
      await expect(run.checkpoints.best()).rejects.toMatchObject(refused);
      await expect(run.checkpoints.at(1)).rejects.toMatchObject(refused);
    }
    await rm(join(best.folder, "complete.json"));
    await expect(run.checkpoints.at(1)).rejects.toThrow(/no readable complete.json/);
  });

  test("none that can be used is an error, not a run from the start", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    const { folder: only } = await run.checkpoint(1, write("abc"));
    await writeFile(join(only, "state.json"), "[]");
    await expect(run.checkpoints.latest()).rejects.toMatchObject({ code: "INVALID_CHECKPOINT" });
    await rm(only, { recursive: true });
    expect(await run.checkpoints.latest()).toBeUndefined();
  });

  test("what a killed process left half-written goes with the next one", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    const left = join(folder, "checkpoints", "step-00000003.partial");
    await mkdir(left);
    await writeFile(join(left, "weights.bin"), Buffer.alloc(1000));
    await run.checkpoint(2, write("a"));
    expect(await readdir(join(folder, "checkpoints"))).toEqual(["step-00000002"]);
  });

  test("a step that is none is refused", async () => {
    const run = await RunDirectory.create(folder, {});
    for (const step of [-1, 1.5, Number.NaN]) {
      await expect(run.checkpoint(step, async () => {})).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });

  test("a damaged one is not kept in place of one that can be used", async () => {
    const run = await RunDirectory.create(folder, {}, warn);
    await run.checkpoint(5, write("abc"));
    const { folder: damaged } = await run.checkpoint(10, write("abc"));
    // Its size tells nothing.
    await writeFile(join(damaged, "model", "weights.bin"), "abd");
    expect(await run.checkpoints.latest()).toMatchObject({ step: 5 });
    await run.checkpoint(7, write("abc"));
    await run.checkpoints.prune(1);
    expect(await run.checkpoints.latest()).toMatchObject({ step: 7 });
    // Made again it is one like any other.
    await run.checkpoint(10, write("abc"));
    await run.checkpoints.prune(1);
    expect((await run.checkpoints.list()).map(({ step }) => step)).toEqual([10]);
    expect(await run.checkpoints.latest()).toMatchObject({ step: 10 });
  });

  test("pruning keeps the newest", async () => {
    const run = await RunDirectory.create(folder, {});
    for (const step of [1, 2, 3, 20]) await run.checkpoint(step, write("a"));
    await run.checkpoints.prune(2);
    expect((await run.checkpoints.list()).map(({ step }) => step)).toEqual([3, 20]);
  });

  test("pruning keeps the best too, the earliest of equal ones", async () => {
    const run = await RunDirectory.create(folder, {});
    const scores = [undefined, 0.5, 0.25, 0.5, undefined, 0.125];
    for (const [step, score] of scores.entries()) {
      await run.checkpoint(step, write("a"), score);
      await run.checkpoints.prune(2);
    }
    expect(await run.checkpoints.best()).toMatchObject({ step: 1, score: 0.5 });
    expect((await run.checkpoints.list()).map(({ step }) => step)).toEqual([1, 4, 5]);
    await run.checkpoint(6, write("a"), 0.75);
    await run.checkpoints.prune(1);
    expect((await run.checkpoints.list()).map(({ step }) => step)).toEqual([6]);
  });
});

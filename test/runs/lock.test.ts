import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, unlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FolderLock } from "../../lib/runs/lock.js";

let folder: string;
let path: string;
let warnings: string[];
const warn = (text: string) => warnings.push(text);
const acquire = (options = {}) => FolderLock.acquire(path, warn, options);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-lock-"));
  path = join(folder, "lock");
  warnings = [];
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A process that holds the lock. */
async function otherProcess() {
  const script = resolve(import.meta.dirname, "lock.child.ts");
  const child = spawn(process.execPath, ["--import", "tsx", script, path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise((ready) => child.stdout.once("data", ready));
  return child;
}

const kill = (child: Awaited<ReturnType<typeof otherProcess>>) =>
  new Promise((done) => {
    child.once("exit", done);
    child.kill("SIGKILL");
  });

describe("a living owner", () => {
  test("of this process is told at once", async () => {
    const lock = await acquire();
    await expect(acquire()).rejects.toMatchObject({
      code: "RUN_LOCKED",
      message: expect.stringMatching(/^This process .* is writing to this run folder/),
    });
    await lock.release();
    await (await acquire()).release();
    expect(await readdir(folder)).toEqual([]);
    expect(warnings).toEqual([]);
  });

  test("of another process is told at once, and its lock stays; one that was killed is found dead at once", async () => {
    const child = await otherProcess();
    const text = await readFile(path, "utf8");
    await expect(acquire()).rejects.toMatchObject({
      code: "RUN_LOCKED",
      message: expect.stringContaining(`Process ${child.pid} on`),
    });
    expect(await readFile(path, "utf8")).toBe(text);
    expect(await readdir(folder)).toEqual(["lock"]);
    await kill(child);
    const lock = await acquire();
    await lock.check();
    expect(warnings).toEqual([
      expect.stringMatching(new RegExp(`Process ${child.pid} .* ended without giving back`)),
    ]);
    await lock.release();
  });

  test("of a thread of this process is told by its sign of life", async () => {
    const url = resolve(import.meta.dirname, "lock.child.ts");
    const worker = new Worker(
      `import("tsx/esm/api").then(({ register }) => { register(); return import(${JSON.stringify(url)}); });`,
      { eval: true, argv: [path], stdout: true },
    );
    await new Promise((ready) => worker.stdout.once("data", ready));
    await expect(acquire({ silenceMs: 20_000 })).rejects.toMatchObject({ code: "RUN_LOCKED" });
    await worker.terminate();
    const lock = await acquire({ silenceMs: 1_000 });
    expect(warnings.at(-1)).toMatch(/gave no sign of life for 1 s/);
    await lock.release();
  });
});

describe("an owner that cannot be looked up", () => {
  const owner = {
    version: 1,
    token: "t",
    pid: 1,
    host: "other",
    system: "other",
    started: "1",
    since: "then",
  };

  test("is dead when it gives no sign of life", async () => {
    await writeFile(path, JSON.stringify(owner));
    const lock = await acquire({ silenceMs: 1_200 });
    expect(warnings).toEqual([
      expect.stringMatching(/Waiting for a sign of life of Process 1 on other/),
      expect.stringMatching(/gave no sign of life for 1.2 s/),
    ]);
    await lock.release();
    expect(await readdir(folder)).toEqual([]);
  });

  test("is alive when it gives one", async () => {
    await writeFile(path, JSON.stringify(owner));
    setTimeout(() => utimes(path, new Date(), new Date()), 300);
    await expect(acquire({ silenceMs: 10_000 })).rejects.toMatchObject({ code: "RUN_LOCKED" });
    expect(await readFile(path, "utf8")).toBe(JSON.stringify(owner));
  });

  test("may give the lock back meanwhile", async () => {
    await writeFile(path, JSON.stringify(owner));
    setTimeout(() => unlink(path), 300);
    await (await acquire({ silenceMs: 10_000 })).release();
  });

  test("is not waited for by one whose signal fires", async () => {
    await writeFile(path, JSON.stringify(owner));
    const signal = AbortSignal.timeout(200);
    await expect(acquire({ silenceMs: 10_000, signal })).rejects.toMatchObject({ code: "ABORTED" });
    expect(await readdir(folder)).toEqual(["lock"]);
  });

  test("may be unknown: the file is damaged", async () => {
    await writeFile(path, "{");
    const lock = await acquire({ silenceMs: 600 });
    expect(warnings.at(-1)).toMatch(/A process without a name gave no sign of life/);
    await lock.release();
  });
});

test("of many that want the lock of a dead owner, one at a time gets it", async () => {
  await kill(await otherProcess());
  let inside = 0;
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async () => {
      try {
        const lock = await acquire();
        expect(++inside).toBe(1);
        await lock.check();
        inside--;
        await lock.release();
        return "had it";
      } catch (error) {
        return (error as { code?: string }).code ?? error;
      }
    }),
  );
  expect(outcomes).toContain("had it");
  expect(outcomes.filter((outcome) => outcome !== "had it" && outcome !== "RUN_LOCKED")).toEqual([]);
  expect(await readdir(folder)).toEqual([]);
});

test("an owner that was given up notices", async () => {
  const lock = await acquire();
  await unlink(path);
  await expect(lock.check()).rejects.toThrow(/it was removed/);
  const other = await acquire();
  await expect(lock.check()).rejects.toThrow(/has taken it over/);
  await lock.release();
  await other.check();
  await other.release();
});

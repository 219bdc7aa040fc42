import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const folder = resolve(import.meta.dirname, "../examples");
let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "hindsearch-examples-"));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

/** Runs an example as its reader does, in an empty folder and without keys. */
async function output(name: string): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), join(folder, `${name}.ts`)],
    {
      cwd: scratch,
      env: {
        PATH: process.env.PATH,
        TMPDIR: scratch,
        TSX_TSCONFIG_PATH: resolve(folder, "../tsconfig.json"),
      },
      timeout: 55_000,
    },
  );
  expect(stderr).toBe("");
  return stdout;
}

/** All numbers behind a word, in their order. */
const numbers = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([, value]) => Number(value));
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

const CHECKS: Readonly<Record<string, (text: string) => void | Promise<void>>> = {
  async quickstart(text) {
    const rewards = numbers(text, /^step \d+: reward ([\d.]+)/gm);
    expect(rewards).toHaveLength(15);
    expect(mean(rewards.slice(-5)) - mean(rewards.slice(0, 2))).toBeGreaterThan(0.2);
    const [, result = ""] = text.match(/are in (.+)$/m) ?? [];
    expect((await stat(join(result, "model", "model.safetensors"))).size).toBeGreaterThan(10_000);
    expect((await readFile(join(result, "run", "metrics.jsonl"), "utf8")).trim().split("\n")).toHaveLength(
      15,
    );
  },
  "own-loop"(text) {
    const right = numbers(text, /^step \d+: (\d+) % right/gm);
    expect(right).toHaveLength(20);
    expect(right[0]).toBeLessThan(75);
    expect(Math.max(...right.slice(-5))).toBeGreaterThan(85);
  },
  "own-retriever"(text) {
    expect(text).toContain("eve is red");
    expect(numbers(text, /^(\d+) queries asked/gm)[0]).toBeGreaterThanOrEqual(8);
    expect(numbers(text, /exact match ([\d.]+)/g)[0]).toBeGreaterThan(0.5);
  },
  "own-judge"(text) {
    const shares = numbers(text, /critiques for (\d+) %/g);
    expect(shares).toHaveLength(3);
    for (const share of shares) expect(share > 20 && share < 80, String(share)).toBe(true);
  },
  "openai-judge"(text) {
    expect(text).toMatch(/status: 'ok',\s+text: 'Search for the birthplace of Shawn Levy/);
    // One request finds out about schemas, one asks; 300 and 12 tokens each, at the example's prices.
    expect(numbers(text, /money: ([\d.]+)/g)[0]).toBeCloseTo((2 * (300 * 0.15 + 12 * 0.6)) / 1e6, 12);
  },
  "search-r1-server"(text) {
    expect(text).toMatch(/^200 \{"result":\[\[\{"document":\{"id":"1"/);
    expect(text).toContain("Shawn Levy: Shawn Levy was born in Montreal.");
  },
  "evaluate-only"(text) {
    const [, before, after] = text.match(/exact match ([\d.]+) -> ([\d.]+)/) ?? [];
    const [, difference] = text.match(/difference (-?[\d.]+)/) ?? [];
    expect(Number(difference)).toBeCloseTo(Number(after) - Number(before), 3);
    expect(Number(difference)).toBeGreaterThan(0);
  },
  resume(text) {
    expect(numbers(text, /^step (\d+), checkpoint/gm)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(numbers(text, /^step (\d+)$/gm)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(text).toMatch(/All \d+ weights are equal\./);
  },
  "worker-thread"(text) {
    expect(numbers(text, /^step (\d+): reward/gm)).toEqual([0, 1, 2, 3, 4]);
    expect(text).toContain("The worker ended with 0");
    expect(numbers(text, /had (\d+) turns/g)[0]).toBeGreaterThan(20);
  },
};

describe("examples", () => {
  test.each(Object.keys(CHECKS))("%s runs offline and does what it says", async (name) => {
    await CHECKS[name]?.(await output(name));
  });

  test("each says first what it shows, and fits on a page", async () => {
    for (const name of Object.keys(CHECKS)) {
      const text = await readFile(join(folder, `${name}.ts`), "utf8");
      expect(text, name).toMatch(/^\/\*\*\n \* [^\n]{20,}\n/);
      expect(text.split("\n").length, name).toBeLessThanOrEqual(75);
    }
  });

  test("the index names every script, and those of one page are run here", async () => {
    const index = await readFile(join(folder, "README.md"), "utf8");
    const scripts = (await readdir(folder)).filter((name) => name.endsWith(".ts"));
    expect(scripts.filter((name) => !index.includes(`](${name})`))).toEqual([]);
    const [, first = ""] = index.split("\n## ");
    const listed = [...first.matchAll(/\]\((.+)\.ts\)/g)].map(([, name]) => name);
    expect(listed.sort()).toEqual(Object.keys(CHECKS).sort());
  });
});

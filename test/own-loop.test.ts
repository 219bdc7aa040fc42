import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

test("the loop of one's own runs by itself and learns", async () => {
  const script = resolve(import.meta.dirname, "../examples/own-loop.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", script], {
    timeout: 55_000,
  });
  const right = [...stdout.matchAll(/^step \d+: (\d+) % right/gm)].map((match) => Number(match[1]));
  expect(right.length).toBe(20);
  expect(right[0]).toBeLessThan(75);
  expect(Math.max(...right.slice(-5))).toBeGreaterThan(85);
});

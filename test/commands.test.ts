import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
let runs: string;
beforeAll(async () => {
  runs = await mkdtemp(join(tmpdir(), "hindsearch-commands-"));
});
afterAll(() => rm(runs, { recursive: true, force: true }));

/** Runs a command of `examples`; `stop` is a word of its output on which it gets a Ctrl-C. */
function command(name: string, args: readonly string[], stop?: string) {
  const child = spawn(process.execPath, ["--import", "tsx", join("examples", `${name}.ts`), ...args], {
    cwd: root,
  });
  let [output, errors] = ["", ""];
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (stop !== undefined && output.includes(stop)) child.kill("SIGINT");
  });
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  return new Promise<{ code: number | null; errors: string }>((done) =>
    child.on("close", (code) => done({ code, errors })),
  );
}

test.each([
  ["demo", ["--foo"], /Unknown option '--foo'/],
  ["demo", ["--steps", "0"], /--steps is "0"/],
  ["demo", ["--weight", "much"], /--weight is "much"/],
  ["demo", ["--judge-url", "http://user:secret-word@host/v1"], /--judge-url must be/],
  ["demo", ["--runs", "package.json"], /package.json/],
  ["ablation", ["--arms", "foo"], /--arms has "foo"/],
  ["ablation", ["--parallel", "0"], /--parallel is "0"/],
] as const)("%s %j is refused in one line with exit code 2", async (name, args, message) => {
  const { code, errors } = await command(name, args);
  expect(errors.trim()).toMatch(message);
  expect(errors.trim().split("\n")).toHaveLength(1);
  expect(errors).not.toContain("secret-word");
  expect(code).toBe(2);
});

test.skipIf(process.platform === "win32")("Ctrl-C ends the demo with exit code 130", async () => {
  const { code, errors } = await command("demo", ["--runs", runs], "Warm start");
  expect(errors.trim()).toBe("Stopped.");
  expect(code).toBe(130);
});

/** Builds and runs the C++ programs of `bench/native`. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = resolve(import.meta.dirname, "..");
const folder = join(root, "build/bench");

/** Builds all of them; without changes that takes a second. */
export async function buildNative(signal: AbortSignal): Promise<void> {
  const options = { cwd: root, signal, maxBuffer: 1 << 26 };
  await run("cmake", ["-S", ".", "-B", folder, "-DHINDSEARCH_ADDON=OFF", "-DHINDSEARCH_BENCH=ON"], options);
  await run("cmake", ["--build", folder, "--parallel", "2"], options);
}

/** Path of a program; `undefined` if it was not built, as the peer of a library that is not there. */
export function program(name: string): string | undefined {
  const path = join(folder, "bench/native", name);
  return existsSync(path) ? path : undefined;
}

/** Runs a program that prints a JSON object a line. */
export async function runNative<Line>(
  name: string,
  args: readonly (string | number)[],
  { threads, signal }: { threads: number; signal: AbortSignal },
): Promise<Line[]> {
  const path = program(name);
  if (path === undefined) throw new Error(`${name} was not built.`);
  const env = { ...process.env, OMP_NUM_THREADS: String(threads) };
  const { stdout } = await run(path, [String(threads), ...args.map(String)], {
    signal,
    env,
    maxBuffer: 1 << 26,
  });
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/**
 * Starts a program of this package in a process of its own, to which it is connected by messages.
 *
 * @param program - Its address without extension.
 * @param options - Further variables of its environment, and options of Node.
 */
export function startProgram(
  program: URL,
  { env = {}, nodeOptions = [] }: { env?: Record<string, string>; nodeOptions?: string[] } = {},
): ChildProcess {
  // Compiled, this is a .js file among others; run from the sources, all are .ts and need the loader.
  const extension = extname(fileURLToPath(import.meta.url));
  const loader =
    extension === ".ts"
      ? ["--import", pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href]
      : [];
  return fork(`${fileURLToPath(program)}${extension}`, {
    execArgv: [...loader, ...nodeOptions],
    env: { ...process.env, ...env },
    serialization: "advanced",
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
}

/** Runs a piece of work in a process of its own, so that its peak of memory is its own. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("./fresh-process-child.ts", import.meta.url));

/** What the parent sends. */
export interface Work {
  /** A module that exports `work`. */
  module: string;
  task: unknown;
  threads: number;
}

/** What the child answers. */
export type Answer = { result: unknown; peakMemory: number } | { error: string };

/** A module in `work/`: what it does runs in the child. */
export interface WorkModule<Task, Result> {
  work(task: Task): Promise<Result>;
}

/**
 * Runs `work` of a module in a new process.
 *
 * @param module - Its URL.
 * @param task - What `work` gets; plain data.
 * @returns What it returns, and the process's peak of resident memory in bytes.
 */
export function inFreshProcess<Task, Result>(
  module: URL,
  task: Task,
  { threads, signal }: { threads: number; signal: AbortSignal },
): Promise<{ result: Result; peakMemory: number }> {
  return new Promise((resolve, reject) => {
    const child = fork(SCRIPT, { signal });
    let answer: Answer | undefined;
    child.on("message", (message: Answer) => {
      answer = message;
    });
    child.on("error", reject);
    child.on("close", (code, killed) => {
      if (answer && "peakMemory" in answer) resolve(answer as { result: Result; peakMemory: number });
      else reject(new Error(`${module.pathname}: ${answer?.error ?? `no result (${killed ?? code})`}`));
    });
    child.send({ module: module.href, task, threads } satisfies Work);
  });
}

/** Runs arms side by side, a process each. */
import { fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { ArmProgress, ArmResult, ArmTask } from "./arm.js";
import type { ArmMessage } from "./arm-process.js";

/** Beside this file, compiled or not. */
const SCRIPT = fileURLToPath(
  new URL(`./arm-process${extname(fileURLToPath(import.meta.url))}`, import.meta.url),
);

/** Runs one arm in its own process. Rejects if the process ends without a result. */
export function runInProcess(
  task: ArmTask,
  onProgress: (progress: ArmProgress) => void,
  signal: AbortSignal,
): Promise<ArmResult> {
  return new Promise((resolve, reject) => {
    const child = fork(SCRIPT, { signal });
    let result: ArmResult | undefined;
    let reason: string | undefined;
    child.on("message", (message: ArmMessage) => {
      if ("result" in message) result = message.result;
      else if ("error" in message) reason = message.error;
      else onProgress(message.progress);
    });
    child.on("error", reject);
    child.on("close", (code, killed) => {
      if (result) resolve(result);
      else
        reject(
          new Error(
            `${task.arm}, seed ${task.seed}: ${reason ?? `the process ended without a result (${killed ?? code})`}`,
          ),
        );
    });
    child.send(task);
  });
}

/** Runs tasks, `parallel` at a time, in their order. */
export async function runAll(
  tasks: readonly ArmTask[],
  parallel: number,
  signal: AbortSignal,
  onResult: (result: ArmResult) => void | Promise<void>,
): Promise<void> {
  const waiting = [...tasks];
  const worker = async () => {
    for (let task = waiting.shift(); task; task = waiting.shift())
      await onResult(await runInProcess(task, () => {}, signal));
  };
  await Promise.all(Array.from({ length: parallel }, worker));
}

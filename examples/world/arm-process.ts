/** Runs one arm in a process of its own, with one compute thread: a small model gains nothing from a second one. */
import { engine } from "hindsearch";
import { type ArmProgress, type ArmResult, type ArmTask, runArm } from "./arm.js";

/** What this process tells its parent. */
export type ArmMessage = { progress: ArmProgress } | { result: ArmResult };

process.once("message", async (task: ArmTask) => {
  engine.threads = 1;
  const send = (message: ArmMessage) => process.send?.(message);
  const result = await runArm(task, (progress) => send({ progress }));
  process.send?.({ result } satisfies ArmMessage, undefined, undefined, () => process.disconnect());
});

/** Runs one arm in a process of its own, with one compute thread: a small model gains nothing from a second one. */
import { engine } from "hindsearch";
import { type ArmProgress, type ArmResult, type ArmTask, runArm } from "./arm.js";

/** What this process tells its parent. */
export type ArmMessage = { progress: ArmProgress } | { result: ArmResult } | { error: string };

process.once("message", async (task: ArmTask) => {
  engine.threads = 1;
  const send = (message: ArmMessage) => process.send?.(message);
  const last = await runArm(task, (progress) => send({ progress })).then(
    (result): ArmMessage => ({ result }),
    (error): ArmMessage => ({ error: error instanceof Error ? error.message : String(error) }),
  );
  process.send?.(last, undefined, undefined, () => process.disconnect());
});
// Also when the parent was killed and could say nothing any more.
process.once("disconnect", () => process.exit());

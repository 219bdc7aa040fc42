import { engine } from "hindsearch";
import type { Answer, Work, WorkModule } from "./fresh-process.js";

process.once("message", async ({ module, task, threads }: Work) => {
  const answer = await run(module, task, threads).catch(
    (error): Answer => ({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
  process.send?.(answer, undefined, undefined, () => process.disconnect());
});
// Also when the parent was killed and could say nothing any more.
process.once("disconnect", () => process.exit());

async function run(module: string, task: unknown, threads: number): Promise<Answer> {
  engine.threads = threads;
  const { work } = (await import(module)) as WorkModule<unknown, unknown>;
  const result = await work(task);
  return { result, peakMemory: process.resourceUsage().maxRSS * 1024 };
}

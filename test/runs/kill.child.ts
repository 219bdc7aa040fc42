/** Writes checkpoints and metrics without end, until it is killed. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RunDirectory } from "../../lib/runs/run.js";

const folder = process.argv[2] ?? "";
const run = (await RunDirectory.exists(folder))
  ? await RunDirectory.open(folder, () => {})
  : await RunDirectory.create(folder, {});
const latest = await run.checkpoints.latest();
const first = latest?.step ?? 0;
await run.rewind(first);
console.log(`from ${first}`);
for (let step = first; ; step++) {
  await run.append("metrics", [{ step, text: "x".repeat(5_000) }]);
  await run.checkpoint(step + 1, async (path) => {
    await writeFile(join(path, "weights.bin"), Buffer.alloc(2_000_000, step % 251));
    await writeFile(join(path, "state.json"), JSON.stringify({ step: step + 1 }));
  });
  await run.checkpoints.prune(2);
}

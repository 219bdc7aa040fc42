import { lstat, mkdtemp, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder } from "../make-folder.js";
import { io } from "../runs/io.js";
import { RunDirectory } from "../runs/run.js";
import type { Finding } from "./check.js";

/** Can a run be written to this folder? Says so too if it holds one already. */
export async function checkRunFolder(folder: string): Promise<Finding> {
  await io(`write to the run folder ${folder}`, () => tryFolder(folder));
  if (!(await RunDirectory.exists(folder))) return "can be written";
  const run = await RunDirectory.open(folder, () => {});
  const latest = await run.checkpoints.latest();
  return {
    status: "warning",
    detail: `holds a run already, ${latest ? `with a checkpoint of step ${latest.step}` : "without a checkpoint"}: --resume goes on with it`,
  };
}

/**
 * Makes a folder in it, and takes away all that was made for that. Permissions do not tell: root has every one, also where
 * nothing can be made.
 */
async function tryFolder(folder: string): Promise<void> {
  const missing: string[] = [];
  for (let path = folder; !(await isThere(path)); path = dirname(path)) missing.push(path);
  try {
    await makeFolder(folder);
    await rmdir(await mkdtemp(join(folder, ".hindsearch-")));
  } finally {
    // Those that were not made cannot be removed, and one in which another process has put something stays.
    for (const path of missing) await rmdir(path).catch(() => {});
  }
}

/** Links that lead nowhere are there: no folder can be made in their place. */
function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

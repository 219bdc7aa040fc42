import { execFile, spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { RunDirectory } from "../../lib/runs/run.js";

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-disk-"));
  using policy = await warmPolicy();
  await policy.save(join(root, "warm"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** How to get a mount namespace: as oneself, or as root where users have none. */
const unshare = [["-rm"], ["-m"]].find(
  (options) =>
    process.platform === "linux" &&
    spawnSync("unshare", [...options, "mount", "-t", "tmpfs", "tmpfs", tmpdir()]).status === 0,
);

/** Runs the child on a file system of 3 MB. */
async function onSmallDisk(mode: string, free = 0) {
  const place = join(root, `${mode}-${free}`);
  await mkdir(place);
  const child = resolve(import.meta.dirname, "disk.child.ts");
  const script = 'place="$1"; shift; mount -t tmpfs -o size=3m tmpfs "$place" && exec "$@"';
  const node = [process.execPath, "--import", "tsx", child, mode, place, `${free}`, join(root, "warm")];
  const parts = [...(unshare ?? []), "sh", "-c", script, "sh", place, ...node];
  const { stdout } = await promisify(execFile)("unshare", parts, {
    cwd: resolve(import.meta.dirname, "../.."),
  });
  return JSON.parse(stdout);
}

describe.skipIf(unshare === undefined)("a small disk (needs mount namespaces: unshare -m)", () => {
  test.each([
    ["with the records of a step", 0],
    ["with its checkpoint", 250_000],
  ])("that fills up %s: nothing is lost, and the run goes on when there is room", async (_, free) => {
    const { failed, left, again, leftAgain, resumed, same } = await onSmallDisk("full", free);
    expect(failed).toMatchObject({ steps: [0, 1], code: "IO" });
    expect(failed.message).toMatch(/no space left on device/i);
    expect(failed.message).toMatch(/free some space, then resume/);
    expect(left.latest).toBe(2);
    // Steps that were logged but have no checkpoint are made again.
    expect(left.logged).toEqual(free === 0 ? [0, 1] : [0, 1, 2]);
    expect(again).toMatchObject({ steps: [], code: "IO" });
    expect(leftAgain.latest).toBe(2);
    expect(resumed).toEqual({ steps: [2, 3] });
    expect(same).toBe(true);
  });

  test("that is read-only: refused before anything is changed, and readable", async () => {
    const { resumed, created, left } = await onSmallDisk("read-only");
    for (const refused of [resumed, created]) {
      expect(refused).toMatchObject({ steps: [], code: "IO" });
      expect(refused.message).toMatch(/read-only: choose another folder/);
    }
    expect(left).toEqual({ latest: 2, logged: [0, 1] });
  });
});

test.skipIf(process.getuid?.() === 0)(
  "a folder without permission to write is refused with the reason (root has every permission)",
  async () => {
    const folder = join(root, "closed");
    await mkdir(folder);
    await chmod(folder, 0o555);
    await expect(RunDirectory.create(join(folder, "run"), {})).rejects.toMatchObject({
      code: "IO",
      message: expect.stringMatching(/needs permission/),
    });
  },
);

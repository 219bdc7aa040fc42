import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { platform } from "node:process";
import { expect, test } from "vitest";
import { checkRunFolder } from "../../lib/doctor/run-folder.js";
import { scratchFolder } from "../support/scratch-folder.js";

const scratch = scratchFolder();

test("a folder that can be written is left as it was, and one that can be made is not there afterwards", async () => {
  await mkdir(scratch("runs"));
  for (const folder of [scratch("runs"), scratch("runs", "a", "b", "c")]) {
    expect(await checkRunFolder(folder)).toBe("can be written");
    expect(await readdir(scratch("runs"))).toEqual([]);
  }
});

test("a file in the place of a folder is named, and nothing is made beside it", async () => {
  await mkdir(scratch("taken"));
  await writeFile(scratch("taken", "file"), "text");
  for (const folder of [scratch("taken", "file"), scratch("taken", "file", "run")]) {
    await expect(checkRunFolder(folder)).rejects.toMatchObject({
      code: "IO",
      message: expect.stringContaining(`Could not write to the run folder ${folder}: `),
    });
  }
  expect(await readdir(scratch("taken"))).toEqual(["file"]);
});

test("a link that leads nowhere is refused and stays", async () => {
  await mkdir(scratch("linked"));
  await symlink(scratch("nowhere"), scratch("linked", "run"));
  await expect(checkRunFolder(scratch("linked", "run"))).rejects.toMatchObject({ code: "IO" });
  expect(await readdir(scratch("linked"))).toEqual(["run"]);
});

test("a name that no folder can have is refused", async () => {
  await mkdir(scratch("long"));
  const folder = scratch("long", "above", "x".repeat(300));
  await expect(checkRunFolder(folder)).rejects.toMatchObject({ code: "IO" });
  expect(await readdir(scratch("long"))).toEqual([]);
});

test.skipIf(platform !== "linux")(
  "a file system that takes no folders is found out, by root too (/proc, on Linux alone)",
  async () => {
    for (const folder of ["/proc/hindsearch-runs", "/proc/hindsearch-runs/a"]) {
      await expect(checkRunFolder(folder)).rejects.toMatchObject({ code: "IO" });
    }
  },
);

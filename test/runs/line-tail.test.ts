import { appendFile, rename, truncate, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { LineTail } from "../../lib/runs/line-tail.js";
import { readBytesAt } from "../../lib/runs/regular-file.js";
import { scratchFolder } from "../support/scratch-folder.js";

const scratch = scratchFolder();
let files = 0;

/** A tail of a new file, and what it hears. */
function tailOf(maxLineBytes = 1_000_000) {
  const path = scratch(`${files++}.jsonl`);
  const tail = new LineTail(path, maxLineBytes);
  const heard: string[] = [];
  const read = async () => {
    heard.length = 0;
    await tail.read({
      line: (bytes, offset) => heard.push(`${offset} ${bytes}`),
      tooLong: (offset, length) => heard.push(`${offset} too long ${length}`),
      restart: () => heard.push("restart"),
    });
    return [...heard];
  };
  return { path, tail, read };
}

test("each call reads whole lines from where the last one ended", async () => {
  const { path, tail, read } = tailOf();
  expect(await read()).toEqual([]);
  await writeFile(path, "one\ntwo\nthr");
  expect(await read()).toEqual(["0 one", "4 two"]);
  expect([tail.position, tail.size]).toEqual([8, 11]);
  expect(await read()).toEqual([]);
  await appendFile(path, "ee\n\nfive\n");
  expect(await read()).toEqual(["8 three", "14 ", "15 five"]);
  expect((await readBytesAt(path, 8, 5)).toString()).toBe("three");
});

test("lines longer than a chunk are whole, and those over the limit are skipped with their length", async () => {
  const { path, read } = tailOf(300_000);
  const long = "x".repeat(290_000);
  await writeFile(path, `a\n${long}\n${"y".repeat(700_000)}\nb\n`);
  expect(await read()).toEqual(["0 a", `2 ${long}`, "290003 too long 700000", "990004 b"]);
});

test("a file that was replaced or cut is read anew", async () => {
  const { path, read } = tailOf();
  await writeFile(path, "one\ntwo\n");
  await read();
  await truncate(path, 4);
  expect(await read()).toEqual(["restart", "0 one"]);
  // As a resume does: cut in place, and longer than before when it is looked at again.
  await truncate(path, 0);
  await appendFile(path, "six\nseven\n");
  expect(await read()).toEqual(["restart", "0 six", "4 seven"]);
  await writeFile(`${path}.new`, "other\nlines\nof more bytes\n");
  await rename(`${path}.new`, path);
  expect(await read()).toEqual(["restart", "0 other", "6 lines", "12 of more bytes"]);
});

test("a folder in place of the file is an error, and an abort ends the reading", async () => {
  const tail = new LineTail(scratch(), 100);
  const listener = { line: () => {}, tooLong: () => {}, restart: () => {} };
  await expect(tail.read(listener)).rejects.toMatchObject({ code: "IO" });
  await expect(tail.read(listener, AbortSignal.abort())).rejects.toMatchObject({ code: "ABORTED" });
});

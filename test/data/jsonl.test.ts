import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type JsonlOptions, type JsonlRow, readJsonl } from "../../lib/data/jsonl.js";
import { describeShared, sharedPath } from "../support/shared.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-jsonl-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function file(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

async function readAll(path: string, options?: JsonlOptions): Promise<JsonlRow[]> {
  const rows: JsonlRow[] = [];
  for await (const row of readJsonl(path, options)) rows.push(row);
  return rows;
}

const fails = (path: string, options?: JsonlOptions) => readAll(path, options).catch((error) => error);

describe("readJsonl", () => {
  test("counts lines, skips blank ones, takes a last line without a break, CRLF and a byte order mark", async () => {
    const path = await file("plain.jsonl", '\ufeff{"a":1}\r\n\r\n  \t\n[2]\n"drei – ü"\nnull');
    expect(await readAll(path)).toEqual([
      { line: 1, value: { a: 1 } },
      { line: 4, value: [2] },
      { line: 5, value: "drei – ü" },
      { line: 6, value: null },
    ]);
  });

  test("an empty file has no rows", async () => {
    expect(await readAll(await file("empty.jsonl", ""))).toEqual([]);
  });

  test("lines that span chunks come out whole", async () => {
    const values = Array.from({ length: 40 }, (_, i) => ({ i, text: "é".repeat(i * 9000) }));
    const path = await file("long.jsonl", values.map((value) => JSON.stringify(value)).join("\n"));
    expect((await readAll(path, { maxLineBytes: 1e6 })).map(({ value }) => value)).toEqual(values);
  });

  test("gzip is recognised by its content, several members included", async () => {
    const bytes = Buffer.concat([gzipSync('{"a":1}\n{"b"'), gzipSync(":2}\n")]);
    expect((await readAll(await file("packed.jsonl", bytes))).map(({ value }) => value)).toEqual([
      { a: 1 },
      { b: 2 },
    ]);
  });

  test.each([
    ["not JSON", '{"a":1}\n{"b":\n', "line 2: not JSON"],
    ["not UTF-8", Buffer.from([0x31, 10, 0x22, 0xff, 0x22, 10]), "line 2: not valid UTF-8"],
    ["cut inside a character", Buffer.from([0x22, 0xc3]), "line 1: not valid UTF-8"],
  ])("%s is an error that names file and line", async (_name, content, message) => {
    const path = await file("damaged.jsonl", content);
    expect(await fails(path)).toMatchObject({ code: "INVALID_DATA" });
    expect((await fails(path)).message).toContain(`${path}, ${message}`);
  });

  test("a long line is refused before it is held as a whole", async () => {
    const path = await file("line.jsonl", `1\n"${"x".repeat(3_000_000)}"\n`);
    expect(await fails(path, { maxLineBytes: 1_000_000 })).toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining("line 2: longer than 1000000 bytes"),
    });
    expect((await fails(path)).message).toMatch(/longer than 524288 bytes;.*Raise maxLineBytes/);
    expect(await readAll(path, { maxLineBytes: 4_000_000 })).toHaveLength(2);
  });

  test("the longest text that can be used passes, however it is escaped", async () => {
    const text = "\\u00e9".repeat(65_536);
    const rows = await readAll(await file("escaped.jsonl", `{"id":"1","question":"${text}"}\n`));
    expect(rows).toEqual([{ line: 1, value: { id: "1", question: "é".repeat(65_536) } }]);
  });

  test.each([{ maxLineBytes: 0 }, { maxLineBytes: Number.NaN }, { maxBytes: -1 }])(
    "%j is refused",
    async (limits) => {
      const path = await file("one.jsonl", "1");
      expect(await fails(path, limits)).toMatchObject({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining(Object.keys(limits)[0] as string),
      });
    },
  );

  test("a decompression bomb hits the cap, not the memory", async () => {
    const path = await file("bomb.jsonl.gz", gzipSync(Buffer.alloc(300_000_000, `"${"x".repeat(9997)}"\n`)));
    const before = process.memoryUsage().rss;
    expect(await fails(path, { maxBytes: 50_000_000 })).toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining("more than 50000000 bytes"),
    });
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000);
  });

  test("damaged gzip, a missing file and a folder are IO errors", async () => {
    const cut = gzipSync(Buffer.from('{"a":1}\n'.repeat(10_000)));
    expect(await fails(await file("cut.gz", cut.subarray(0, cut.length - 20)))).toMatchObject({ code: "IO" });
    expect(await fails(join(folder, "missing"))).toMatchObject({
      code: "IO",
      message: expect.stringContaining("missing"),
    });
    expect(await fails(folder)).toMatchObject({ code: "IO" });
  });

  test.skipIf(process.platform === "win32")(
    "a pipe without a writer is refused, not waited for",
    async () => {
      const path = join(folder, "pipe");
      execFileSync("mkfifo", [path]);
      expect(await fails(path)).toMatchObject({
        code: "IO",
        message: expect.stringContaining("regular file"),
      });
    },
  );

  test("ends on a signal, before and during", async () => {
    const path = await file("many.jsonl", "1\n".repeat(2_000_000));
    expect(await fails(path, { signal: AbortSignal.abort() })).toMatchObject({ code: "ABORTED" });
    const controller = new AbortController();
    const reading = (async () => {
      for await (const { line } of readJsonl(path, { signal: controller.signal })) {
        if (line === 5) controller.abort();
      }
    })();
    await expect(reading).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("a reader that stops early closes the file", async () => {
    const path = await file("early.jsonl", `${JSON.stringify("word ".repeat(200))}\n`.repeat(2000));
    const opened = async () =>
      (
        await Promise.all(
          (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")),
        )
      ).filter((target) => target === path).length;
    for (let i = 0; i < 20; i++) {
      for await (const { line } of readJsonl(path)) {
        if (line === 1 && i === 0 && process.platform === "linux") expect(await opened()).toBe(1);
        if (line === 2) break;
      }
    }
    if (process.platform === "linux") expect(await opened()).toBe(0);
  });

  test("leaves the event loop its turn", async () => {
    const path = await file(
      "loop.jsonl",
      `${JSON.stringify({ text: "word ".repeat(200) })}\n`.repeat(30_000),
    );
    let longest = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 1);
    await readAll(path);
    clearInterval(timer);
    expect(longest).toBeLessThan(100);
  });
});

describeShared("readJsonl on real corpora", () => {
  test.each([
    ["multihop.jsonl.gz", 16_885],
    ["wiki18_single.jsonl.gz", 11_109],
  ])("%s", async (name, count) => {
    const rows = await readAll(sharedPath("data", "corpus", name));
    expect(rows).toHaveLength(count);
    expect(rows.at(-1)).toEqual({
      line: count,
      value: { id: String(count - 1), contents: expect.stringMatching(/^"/) },
    });
  });
});

import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { corpusChecksum } from "../../lib/retrieval/checksum.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { readCorpus } from "../../lib/retrieval/sources/corpus.js";
import type { CorpusOptions } from "../../lib/retrieval/sources/options.js";
import { readParquet } from "../../lib/retrieval/sources/parquet.js";
import { describeShared, sharedPath } from "../support/shared.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-sources-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(path: string, options: CorpusOptions = {}): Promise<Passage[]> {
  const passages: Passage[] = [];
  for await (const passage of readCorpus(path, options)) passages.push(passage);
  return passages;
}

let made = 0;
async function file(content: string | Uint8Array): Promise<string> {
  const path = join(folder, `file-${made++}`);
  await writeFile(path, content);
  return path;
}

/** Writes documents by their paths in a folder of their own. */
async function documents(files: Record<string, string | Uint8Array>): Promise<string> {
  const root = join(folder, `folder-${made++}`);
  await mkdir(root);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), content);
  }
  return root;
}

describe("Parquet", () => {
  const parquet = (columns: Record<string, unknown[]>, options = {}) =>
    new Uint8Array(
      parquetWriteBuffer({
        columnData: Object.entries(columns).map(([name, data]) => ({ name, data, type: "STRING" as const })),
        ...options,
      }),
    );
  const ids = Array.from({ length: 250 }, (_, i) => String(i));
  const contents = ids.map((id) => `"Title ${id}"\\nText ${id} — ünï`.replace("\\n", "\n"));
  const passages = ids.map((id) => ({ id, title: `Title ${id}`, text: `Text ${id} — ünï` }));

  test.each([100, 1000])("the columns of a corpus, in row groups of %d", async (rowGroupSize) => {
    const path = await file(parquet({ id: ids, contents, other: ids }, { rowGroupSize }));
    expect(await read(path)).toEqual(passages);
    expect(await corpusChecksum(path)).toBe(await corpusChecksum(passages));
  });

  test("title and text, with missing titles", async () => {
    const path = await file(parquet({ id: ["a", "b"], title: ["A", null], text: ["alpha", "beta"] }));
    expect(await read(path)).toEqual([
      { id: "a", title: "A", text: "alpha" },
      { id: "b", title: "", text: "beta" },
    ]);
  });

  test("ids that are numbers", async () => {
    const columnData = [
      { name: "id", data: [7n, 8n], type: "INT64" as const },
      { name: "text", data: ["x", "y"], type: "STRING" as const },
    ];
    const path = await file(new Uint8Array(parquetWriteBuffer({ columnData })));
    expect((await read(path)).map(({ id }) => id)).toEqual(["7", "8"]);
  });

  test.each([
    ["other columns", parquet({ name: ["a"], body: ["x"] }), /row 0: id is neither/],
    [
      "a row without text",
      parquet({ id: ["a", "b"], text: ["x", null] }),
      /row 1: neither contents nor text/,
    ],
    ["a file that is cut off", parquet({ id: ids, contents }).subarray(0, 900), /footer|Parquet/],
    ["the magic alone", Buffer.from("PAR1"), /footer/],
  ])("%s is refused", async (_name, bytes, message) => {
    const path = await file(bytes);
    const error = { code: "INVALID_DATA", message: expect.stringMatching(message) };
    await expect(read(path)).rejects.toMatchObject(error);
    await expect(read(path)).rejects.toThrow(path);
  });

  test("damage anywhere is an error or other text, never a crash nor a hang", async () => {
    const good = parquet({ id: ids, contents });
    // At 13, in a page's header, the decoder comes to no end.
    for (const i of [5, 9, 13, 17, 40, 300, 901, 1500, 2200, good.length - 20, good.length - 6]) {
      const bad = good.slice();
      bad[i] = (bad[i] as number) ^ 0x55;
      const passages = readParquet(await file(bad), {}, 4000);
      const found = await passages.next().catch((error) => error);
      if (found instanceof Error) expect(found).toMatchObject({ code: "INVALID_DATA" });
      await passages.return();
    }
  });

  test("an aborted reading is over at once", async () => {
    const controller = new AbortController();
    const path = await file(parquet({ id: ids, contents }));
    const reading = readParquet(path, { signal: controller.signal }).next();
    controller.abort();
    await expect(reading).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("a page that becomes larger than allowed is refused before it is decompressed", async () => {
    const path = await file(parquet({ id: ["bomb"], text: ["a".repeat(3_000_000)] }));
    expect((await readFile(path)).length).toBeLessThan(200_000);
    await expect(read(path, { maxBytes: 1_000_000 })).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining("maxBytes"),
    });
    await expect(read(path)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining("row 0: text is longer than 524288 bytes"),
    });
    expect((await read(path, { maxLineBytes: 4_000_000 })).length).toBe(1);
  });

  describeShared("of Search-R1", () => {
    test("a file that is no corpus says so", async () => {
      const path = sharedPath("data", "golden", "parquet", "searchr1_nq_test.parquet");
      await expect(read(path)).rejects.toMatchObject({
        code: "INVALID_DATA",
        message: expect.stringContaining("neither contents nor text"),
      });
    });
  });
});

describe("a folder", () => {
  test("gives its text and Markdown files in the order of their paths", async () => {
    const root = await documents({
      "b.txt": "Second text.",
      "a/deep/notes.md": "Intro.\n\n## The *real* title ##\n\nBody.\r\nMore.",
      "B.TXT": "First text.",
      "skipped.pdf": Buffer.from([0, 1, 2]),
      "empty.md": " \n\n ",
    });
    expect(await read(root)).toEqual([
      { id: "B.TXT#0", title: "B", text: "First text." },
      {
        id: "a/deep/notes.md#0",
        title: "The *real* title",
        text: "Intro.\n\n## The *real* title ##\n\nBody.\nMore.",
      },
      { id: "b.txt#0", title: "b", text: "Second text." },
    ]);
  });

  test("passages keep to the number of words, lose none, and begin at paragraphs where they can", async () => {
    const paragraphs = Array.from({ length: 40 }, (_, p) =>
      Array.from({ length: 5 + ((p * 7) % 30) }, (_, w) => `p${p}w${w}`).join(" "),
    );
    const root = await documents({ "long.md": paragraphs.join("\n\n") });
    const passages = await read(root, { chunks: { words: 40 } });
    const words = passages.map(({ text }) => text.split(/\s+/));
    expect(Math.max(...words.map(({ length }) => length))).toBeLessThanOrEqual(40);
    expect(words.flat()).toEqual(paragraphs.join(" ").split(" "));
    expect(passages.every(({ text }) => /^p\d+w0\b/.test(text))).toBe(true);
    expect(passages.map(({ id }) => id)).toEqual(passages.map((_, i) => `long.md#${i}`));
  });

  test("passages overlap as told", async () => {
    const root = await documents({ "x.txt": Array.from({ length: 20 }, (_, i) => `w${i}`).join(" ") });
    const passages = await read(root, { chunks: { words: 8, overlap: 2 } });
    const words = passages.map(({ text }) => text.split(" "));
    for (const [i, list] of words.slice(1).entries()) expect(list.slice(0, 2)).toEqual(words[i]?.slice(-2));
    expect(new Set(words.flat()).size).toBe(20);
  });

  test("text without white space, and a document of megabytes, are cut all the same", async () => {
    const root = await documents({
      "run.txt": "é😀".repeat(10_000),
      "large.txt": "some words here. ".repeat(90_000),
    });
    const passages = await read(root);
    expect(Math.max(...passages.map(({ text }) => text.length))).toBeLessThanOrEqual(100 * 128);
    const joined = (name: string) =>
      passages
        .filter(({ id }) => id.startsWith(name))
        .map(({ text }) => text.replaceAll(/\s/g, ""))
        .join("");
    expect(joined("run.txt")).toBe("é😀".repeat(10_000));
    expect(joined("large.txt")).toBe("somewordshere.".repeat(90_000));
  });

  test("control characters mean nothing", async () => {
    const root = await documents({ "c.txt": "\ufeffone\u0007two\u001b[31mthree\tfour" });
    expect((await read(root))[0]?.text).toBe("one two [31mthree\tfour");
  });

  test.each([
    ["NUL bytes", "a\0b", "NUL"],
    ["another encoding", Buffer.from([0x66, 0xfc, 0x72]), "UTF-8"],
  ])("%s are refused by name", async (_name, content, problem) => {
    const root = await documents({ "fine.txt": "fine", "bad.txt": content });
    await expect(read(root)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringMatching(new RegExp(`bad\\.txt: .*${problem}`)),
    });
  });

  test("more text than allowed", async () => {
    const root = await documents({ "a.txt": "x".repeat(600), "b.txt": "y".repeat(600) });
    await expect(read(root, { maxBytes: 1000 })).rejects.toMatchObject({ code: "INVALID_DATA" });
  });

  test("links out of it are refused, links inside add nothing, and rings end", async () => {
    const outside = await documents({ "secret.txt": "secret" });
    const root = await documents({ "a.txt": "alpha" });
    await symlink(join(root, "a.txt"), join(root, "again.txt"));
    await symlink(root, join(root, "ring"));
    expect((await read(root)).map(({ id }) => id)).toEqual(["a.txt#0"]);
    for (const [name, target] of [
      ["file.txt", join(outside, "secret.txt")],
      ["directory", outside],
    ] as const) {
      await symlink(target, join(root, name));
      const refused = { code: "INVALID_DATA", message: expect.stringContaining(name) };
      await expect(read(root)).rejects.toMatchObject(refused);
      await rm(join(root, name));
    }
  });

  test.each([{ words: 0 }, { words: 1.5 }, { words: 10, overlap: 10 }, { overlap: -1 }])(
    "wrong chunks: %j",
    async (chunks) => {
      const root = await documents({ "a.txt": "x" });
      await expect(read(root, { chunks })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );
});

test("what is not there", async () => {
  await expect(read(join(folder, "missing"))).rejects.toMatchObject({ code: "IO" });
});

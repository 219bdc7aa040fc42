import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PGlite } from "@electric-sql/pglite";
import { pg_textsearch } from "@electric-sql/pglite-pg_textsearch";
import { vector } from "@electric-sql/pglite-pgvector";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readConfiguration } from "../../lib/config/read.js";
import { type Block, blocksOf, pages, pageText, ROOT, runnable } from "./blocks.js";
import { Reader } from "./reader.js";
import { type TypeFault, typeFaults } from "./type-check.js";

const texts = pages().map((page) => [page, pageText(page)] as const);
const all = texts.flatMap(([page, text]) => blocksOf(page, text));
const typescript = all.filter(({ language }) => language === "ts");
const left = all.filter(({ directive }) => directive.kind === "not run");
const place = ({ page, line }: Block) => `${page}, line ${line}`;

/** What a command printed: nothing to run. */
const OUTPUT = "text";
/** How a block of a language is run, in the folder of its page. */
const RUN: Readonly<Record<string, (block: Block, folder: string) => Promise<void>>> = {
  ts: runModule,
  sh: runShell,
  sql: runSql,
  yaml: checkYaml,
  json: async ({ text }) => void JSON.parse(text),
};

let reader: Reader;
beforeAll(async () => {
  reader = await Reader.create();
});
afterAll(async () => {
  await reader?.[Symbol.asyncDispose]();
});

test("every block says its language", () => {
  const known = [OUTPUT, ...Object.keys(RUN)];
  expect(all.filter(({ language }) => !known.includes(language)).map(place)).toEqual([]);
  const fences = texts.map(([, text]) => text.match(/^ *(```|~~~)/gm)?.length ?? 0);
  expect(fences.reduce((sum, count) => sum + count, 0)).toBe(2 * all.length);
  const indented = texts.filter(([, text]) => /\n\n {4,}\S/.test(text.replaceAll(/^```[\s\S]*?^```$/gm, "")));
  expect(indented.map(([page]) => page)).toEqual([]);
});

const reasons = new Set(left.flatMap(({ directive }) => ("reason" in directive ? directive.reason : [])));
test(`${left.length} of ${all.length} blocks are not run: ${[...reasons].join("; ")}`, () => {
  expect([...reasons].filter((reason) => reason.trim().length < 10)).toEqual([]);
  // Of all that is there, most is run or has its types checked.
  expect(left.length).toBeLessThan(all.length / 2);
});

test("a comment that does not fit its block is refused, and a failing command is seen", async () => {
  const fence = "```sh\nexit 3\n```\n";
  const [block] = blocksOf("wrong.md", `<!-- run with\nexit 4 => exit 0\n-->\n${fence}`);
  expect(() => runnable(block as Block)).toThrow('wrong.md, line 5: the block does not hold "exit 4".');
  expect(() => blocksOf("wrong.md", `<!-- run with\nexit 3\n-->\n${fence}`)).toThrow("exit 3");
  expect(await reader.shell(ROOT, "echo before; false; echo behind")).toEqual({
    code: 1,
    output: "before\n",
  });
});

describe("types", () => {
  const wrong = blocksOf(
    "wrong.md",
    "<!-- context\ndeclare const policy: Policy;\n-->\n" +
      "```ts\nawait policy.save(1);\nawait nothing();\nnew MemoryRetriever();\n```\n",
  );
  let faults: TypeFault[];
  beforeAll(() => {
    faults = typeFaults([...typescript, ...wrong]);
  });

  test(`of ${typescript.length} blocks are right`, () => {
    expect(faults.filter(({ page }) => page !== "wrong.md")).toEqual([]);
  });

  test("a wrong one, an unknown name and a missing argument are found at their lines", () => {
    expect(faults.filter(({ page }) => page === "wrong.md").map(({ line }) => line)).toEqual([5, 6, 7]);
  });
});

test("commands that are not run name scripts and files that exist", async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  for (const block of left.filter(({ language }) => language === "sh")) {
    for (const [, name] of block.text.matchAll(/npm run ([\w:-]+)/g))
      expect(scripts, place(block)).toHaveProperty([name ?? ""]);
    for (const [, file] of block.text.matchAll(/npx tsx (\S+)/g))
      expect(existsSync(join(ROOT, file ?? "")), file).toBe(true);
  }
});

const run = all.filter(
  ({ language, directive }) => language in RUN && ["run", "background", "file"].includes(directive.kind),
);

describe.each([...new Set(run.map(({ page }) => page))])("%s", (page) => {
  const blocks = run.filter((block) => block.page === page);
  let folder: string;
  beforeAll(async () => {
    folder = await reader.folderOf(page);
    for (const block of blocks) {
      if (block.directive.kind !== "file") continue;
      await writeFile(join(folder, block.directive.name), reader.fill(runnable(block)));
    }
  });
  afterAll(() => reader.stop());

  // A page's commands train, search and evaluate one after the other.
  test.each(blocks)("line $line runs", (block) => RUN[block.language]?.(block, folder), 180_000);
});

async function runModule(block: Block, folder: string): Promise<void> {
  const file = join(folder, `line-${block.line}.ts`);
  await writeFile(file, `${reader.fill(runnable(block))}\nexport {};\n`);
  const before = process.cwd();
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  process.chdir(folder);
  try {
    await import(pathToFileURL(file).href);
  } finally {
    process.chdir(before);
    log.mockRestore();
  }
}

async function runShell(block: Block, folder: string): Promise<void> {
  const script = reader.fill(runnable(block));
  if (block.directive.kind === "background") return reader.background(folder, script, block.directive.until);
  const { code, output } = await reader.shell(folder, script);
  expect(code, output).toBe(0);
}

/** A configuration holds to the schema, as it stands and as it is run. */
async function checkYaml(block: Block, folder: string): Promise<void> {
  for (const text of [block.text, reader.fill(runnable(block))]) {
    const file = join(folder, `line-${block.line}.yaml`);
    await writeFile(file, text);
    await readConfiguration(file);
  }
}

async function runSql({ text }: Block): Promise<void> {
  const database = await PGlite.create({ extensions: { vector, pg_textsearch } });
  try {
    await database.exec(`CREATE EXTENSION vector; CREATE EXTENSION pg_textsearch; ${text}`);
  } finally {
    await database.close();
  }
}

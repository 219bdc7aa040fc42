import { mkdir, readdir, readFile, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";

const root = resolve(import.meta.dirname, "../..");
const built = builtPackage();
const OPTIONAL = ["@lancedb", "apache-arrow", "hyparquet", "hyparquet-compressors", "llm-splitter"];

beforeAll(async () => {
  const modules = join(built.folder, "node_modules");
  await rm(modules);
  await mkdir(modules);
  for (const entry of await readdir(join(root, "node_modules"))) {
    if (OPTIONAL.includes(entry) || entry.startsWith(".")) continue;
    await symlink(join(root, "node_modules", entry), join(modules, entry));
  }
});

test("without its optional packages it says what to install, and the rest works", async () => {
  const { stdout, stderr } = await built.run(`
    import { mkdir, writeFile } from "node:fs/promises";
    import { CorpusIndex, MemoryRetriever, readCorpus } from "./dist/index.js";
    const passages = [{ id: "a", title: "", text: "x" }];
    const memory = await MemoryRetriever.create(passages);
    console.log((await memory.search(["x"], 1))[0][0].id);
    await mkdir("documents");
    await writeFile("passages.parquet", "PAR1");
    for (const call of [
      () => CorpusIndex.build(passages, "built"),
      () => CorpusIndex.open("documents"),
      () => readCorpus("passages.parquet").next(),
      () => readCorpus("documents").next(),
    ])
      await call().catch((error) => console.log(error.code, error.message));
  `);
  expect(stderr).toBe("");
  const [found, ...errors] = stdout.trim().split("\n");
  expect(found).toBe("a");
  const { optionalDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const install = (...names: string[]) =>
    `npm install ${names.map((name) => `${name}@${optionalDependencies[name]}`).join(" ")}`;
  const engine = install("@lancedb/lancedb", "apache-arrow");
  const expected = [engine, engine, install("hyparquet", "hyparquet-compressors"), install("llm-splitter")];
  expect(errors).toHaveLength(expected.length);
  for (const [i, error] of errors.entries()) {
    expect(error).toMatch(/^DEPENDENCY_MISSING /);
    expect(error).toContain(expected[i]);
  }
});

import { mkdir, readdir, readFile, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";

const root = resolve(import.meta.dirname, "../..");
const built = builtPackage();

beforeAll(async () => {
  const modules = join(built.folder, "node_modules");
  await rm(modules);
  await mkdir(modules);
  for (const entry of await readdir(join(root, "node_modules"))) {
    if (entry === "@lancedb" || entry === "apache-arrow" || entry.startsWith(".")) continue;
    await symlink(join(root, "node_modules", entry), join(modules, entry));
  }
});

test("without its optional packages the engine says what to install, and the rest works", async () => {
  const { stdout, stderr } = await built.run(`
    import { mkdir, writeFile } from "node:fs/promises";
    import { LanceRetriever } from "./dist/retrieval/lance.js";
    import { MemoryRetriever } from "./dist/retrieval/memory.js";
    const passages = [{ id: "a", title: "", text: "x" }];
    const memory = await MemoryRetriever.create(passages);
    console.log((await memory.search(["x"], 1))[0][0].id);
    await mkdir("given");
    await writeFile("given/hindsearch-index.json", '{"format": 1, "passages": 1}');
    for (const call of [() => LanceRetriever.build("built", passages), () => LanceRetriever.open("given")])
      await call().catch((error) => console.log(error.code, error.message));
  `);
  expect(stderr).toBe("");
  const [found, ...errors] = stdout.trim().split("\n");
  expect(found).toBe("a");
  const { optionalDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const packages = ["@lancedb/lancedb", "apache-arrow"].map(
    (name) => `${name}@${optionalDependencies[name]}`,
  );
  expect(errors).toHaveLength(2);
  for (const error of errors) {
    expect(error).toMatch(/^DEPENDENCY_MISSING /);
    expect(error).toContain(`npm install ${packages.join(" ")}`);
  }
});

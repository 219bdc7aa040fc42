import { execFile } from "node:child_process";
import { access, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import packageJson from "../package.json" with { type: "json" };

const root = resolve(import.meta.dirname, "..");
const scripts: Record<string, string> = packageJson.scripts;

test("every set of CMake options has a build folder of its own", async () => {
  // cmake-js and CMake take the options of a folder that is configured already from its cache, without a word.
  const gyp = (await readFile(join(root, "binding.gyp"), "utf8")).replaceAll(/'[, ]*/g, " ");
  const folders = new Map<string, Set<string>>();
  for (const command of [...Object.values(scripts), gyp].flatMap((text) => text.split("&&"))) {
    const folder = /(?:--out|-B)\s+(\S+)/.exec(command)?.[1];
    if (folder === undefined) continue;
    const options = command.match(/\s(?:-D|--CD|-G|-C)\S*/g) ?? [];
    folders.set(folder, (folders.get(folder) ?? new Set()).add(options.sort().join(" ")));
  }
  expect([...folders.keys()].sort()).toEqual([
    "build/cmake",
    "build/cmake-asan",
    "build/cmake-cuda",
    "build/cmake-test",
  ]);
  for (const [folder, sets] of folders) expect([...sets], folder).toHaveLength(1);
});

test("configuring takes the headers from node_modules and asks no server", async () => {
  const cmakeLists = await readFile(join(root, "native/addon/CMakeLists.txt"), "utf8");
  expect(packageJson.binary.napi_versions).toEqual([Number(/NAPI_VERSION=(\d+)/.exec(cmakeLists)?.[1])]);

  const home = await mkdtemp(join(tmpdir(), "hindsearch-home-"));
  const nobody = "http://127.0.0.1:1";
  const cmakeJs = createRequire(import.meta.url).resolve("cmake-js/bin/cmake-js");
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [cmakeJs, "print-configure", "--out", join(home, "build")],
    { cwd: root, env: { ...process.env, HOME: home, HTTP_PROXY: nobody, HTTPS_PROXY: nobody } },
  );
  const include = /CMAKE_JS_INC=([^']*)'/.exec(stdout)?.[1]?.split(";") ?? [];
  const folders = include.map((folder) => folder.replace(join(root, "node_modules"), ""));
  expect(folders).toEqual(["/node-api-headers/include", "/node-addon-api"]);
  expect(await readdir(home)).toEqual([]);
  await rm(home, { recursive: true });
});

test("no script is npm's hook of another by accident", () => {
  const hooks = Object.keys(scripts).filter((name) => /^(pre|post)/.test(name));
  const accidental = hooks.filter((name) => name.replace(/^(pre|post)/, "") in scripts);
  expect(accidental).toEqual([]);
  expect(scripts).not.toHaveProperty("prebuild");
});

test("every file that CONTRIBUTING.md names exists", async () => {
  const text = await readFile(join(root, "CONTRIBUTING.md"), "utf8");
  const named = [...text.matchAll(/`((?:lib|native|test|docs|examples)\/[\w./-]+)`/g)].map(
    (match) => match[1] ?? "",
  );
  expect(named.length).toBeGreaterThan(20);
  for (const path of named) await access(join(root, path));
});

test("the build leaves one binary where loaders take the first one", async () => {
  const built = await readdir(join(root, "build/Release"));
  expect(built.filter((name) => name.endsWith(".node"))).toEqual(["hindsearch.node"]);
});

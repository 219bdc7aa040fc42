import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";

const built = builtPackage();

/** What `loadAddon` throws, or the version it loads, in a process of its own. */
async function load(env: Record<string, string> = {}) {
  const result = await built.run(
    `
    import { loadAddon } from "./dist/native/load.js";
    import { HindsearchError } from "hindsearch";
    try {
      console.log(JSON.stringify({ version: loadAddon().version }));
    } catch (error) {
      const ours = error instanceof HindsearchError;
      console.log(JSON.stringify({ ours, code: error.code, message: error.message, cause: error.cause?.message }));
    }
  `,
    "mjs",
    env,
  );
  expect(result).toMatchObject({ code: 0, stderr: "" });
  return JSON.parse(result.stdout);
}

const platform = `${process.platform}-${process.arch}`;
const rootOf = (message: string) =>
  message.replaceAll(built.folder, "<package>").replaceAll(process.versions.node, "<node>");

test("no binary, as after an install with scripts off: what was tried and what to do", async () => {
  await built.removeBinary();
  const failure = await load();
  expect(failure).toMatchObject({ ours: true, code: "ADDON_NOT_FOUND" });
  expect(failure.cause).toContain("No native build was found");
  expect(rootOf(failure.message)).toBe(
    `No native engine for ${platform} with Node <node> in <package>/: looked in build/Release, build/Debug and ` +
      `prebuilds/${platform}. npm builds it when the package is installed, unless install scripts are switched off or ` +
      'not approved. Allow the install script of hindsearch, then run "npm rebuild hindsearch" (needs a C++20 compiler, ' +
      "CMake 3.25 and Python 3).",
  );
});

test("a prebuilt binary is found without any script", async () => {
  await built.placeBinary(`prebuilds/${platform}/hindsearch.node`);
  expect(await load()).toEqual({ version: expect.any(String) });
});

test("a binary that comes first in the alphabet is not taken from a folder below", async () => {
  await built.placeBinary(`prebuilds/${platform}/hindsearch.node`);
  const other = join(built.folder, "prebuilds", platform, "cuda");
  await mkdir(other);
  await writeFile(join(other, "hindsearch-cuda.node"), "not ours");
  expect(await load()).toEqual({ version: expect.any(String) });
});

test("a binary for another C library is not offered", async () => {
  // prebuildify --tag-libc writes the C library into the file name; node-gyp-build compares it with LIBC.
  await built.placeBinary(`prebuilds/${platform}/hindsearch.glibc.node`);
  expect(await load({ LIBC: "glibc" })).toEqual({ version: expect.any(String) });
  expect(await load({ LIBC: "musl" })).toMatchObject({ code: "ADDON_NOT_FOUND" });
});

test("a damaged binary: which file, why, what to do", async () => {
  await built.placeBinary("build/Release/hindsearch.node");
  await writeFile(join(built.folder, "build/Release/hindsearch.node"), "not a shared object");
  const failure = await load();
  expect(failure).toMatchObject({ ours: true, code: "ADDON_LOAD_FAILED" });
  expect(rootOf(failure.message)).toContain("<package>/build/Release/hindsearch.node");
  expect(failure.message).toContain(failure.cause);
  expect(failure.message).toContain('run "npm rebuild hindsearch"');
});

test("a binary left over from another version is refused", async () => {
  await built.placeBinary("build/Release/hindsearch.node");
  const path = join(built.folder, "package.json");
  const original = await readFile(path, "utf8");
  await writeFile(path, JSON.stringify({ ...JSON.parse(original), version: "99.0.0" }));
  const failure = await load();
  await writeFile(path, original);
  expect(failure).toMatchObject({ ours: true, code: "ADDON_LOAD_FAILED" });
  expect(failure.message).toContain("this package of version 99.0.0");
});

import { expect, test } from "vitest";
import { builtPackage } from "./support/built-package.js";

const built = builtPackage();

test("import and require give the same classes", async () => {
  const result = await built.run(`
    import { createRequire } from "node:module";
    import * as esm from "hindsearch";
    const cjs = createRequire(import.meta.url)("hindsearch");
    const different = Object.keys(esm).filter((name) => esm[name] !== cjs[name]);
    console.log(JSON.stringify({ names: Object.keys(esm).length, different }));
  `);
  expect(result.stderr).toBe("");
  const { names, different } = JSON.parse(result.stdout);
  expect(names).toBeGreaterThan(0);
  expect(different).toEqual([]);
});

test("an error of one door is an instance of the other door's class", async () => {
  const result = await built.run(`
    import { createRequire } from "node:module";
    import { HindsearchError, Policy } from "hindsearch";
    const cjs = createRequire(import.meta.url)("hindsearch");
    const thrown = await cjs.Policy.load("/nowhere").catch((error) => error);
    const other = await Policy.load("/nowhere").catch((error) => error);
    console.log([thrown instanceof HindsearchError, other instanceof cjs.HindsearchError, thrown.code].join());
  `);
  expect(result).toMatchObject({ stdout: "true,true,INVALID_CHECKPOINT\n", stderr: "" });
});

test("require alone works", async () => {
  const result = await built.run(
    `const { HindsearchError } = require("hindsearch");
     console.log(new HindsearchError("IO", "x") instanceof Error);`,
    "cjs",
  );
  expect(result).toMatchObject({ code: 0, stdout: "true\n" });
});

test("importing the package loads no binary, ours or another; the first use does", async () => {
  const result = await built.run(`
    await import("hindsearch");
    const objects = () => process.report.getReport().sharedObjects.filter((name) => name.endsWith(".node"));
    const afterImport = objects().length;
    const { loadAddon } = await import("./dist/native/load.js");
    loadAddon();
    console.log(JSON.stringify({ afterImport, afterUse: objects().length }));
  `);
  expect(result.stderr).toBe("");
  expect(JSON.parse(result.stdout)).toEqual({ afterImport: 0, afterUse: 1 });
});

test("the package works without a binary until it computes", async () => {
  await built.removeBinary();
  const result = await built.run(`
    const { HindsearchError, estimateMemory, worldModel } = await import("hindsearch");
    const { settings, peak } = estimateMemory(worldModel().config);
    console.log(new HindsearchError("IO", "x").code, settings.compute, peak.bytes > 0);
  `);
  await built.placeBinary("build/Release/hindsearch.node");
  expect(result).toMatchObject({ code: 0, stdout: "IO f32 true\n" });
});

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { compareVersions, neededVersions } from "../../scripts/needed-versions.js";
import { CUDA_BINARY } from "../support/cuda-addon.js";

const cpu = resolve(import.meta.dirname, "../../build/Release/hindsearch.node");
const binaries = [["the CPU's", cpu], ...(existsSync(CUDA_BINARY) ? [["the GPU's", CUDA_BINARY]] : [])];
const { glibcVersionRuntime: glibc } = (
  process.report.getReport() as { header: { glibcVersionRuntime?: string } }
).header;

describe.runIf(process.platform === "linux").each(binaries)("%s binary", (_, binary = "") => {
  const readelf = (...options: string[]) =>
    execFileSync("readelf", ["-W", ...options, binary], { encoding: "utf8", maxBuffer: 2 ** 26 });

  test("exports the two entry points of Node-API and nothing else", () => {
    const defined = readelf("--dyn-syms")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , , bind, , section]) => bind === "GLOBAL" && section !== "UND")
      .map((columns) => columns[7]);
    expect(defined.sort()).toEqual(["napi_register_module_v1", "node_api_module_get_api_version_v1"]);
  });

  test("needs no library that Node itself does not need", () => {
    // libgomp in particular is absent on many user machines.
    const needed = [...readelf("--dynamic").matchAll(/\(NEEDED\).*\[(.+)\]/g)].map((match) => match[1] ?? "");
    const allowed = /^(libstdc\+\+\.so\.6|libgcc_s\.so\.1|lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*)$/;
    expect(needed.length).toBeGreaterThan(0);
    expect(needed.filter((name) => !allowed.test(name))).toEqual([]);
  });

  test("lacks no function of its own", () => {
    // A shared object links without them, and fails at the first call.
    const missing = readelf("--dyn-syms")
      .split("\n")
      .filter((line) => /\sUND\s.*hindsearch/.test(line));
    expect(missing).toEqual([]);
  });

  test("takes the C++ library of the system, not a copy of its own", () => {
    // The copy would need arc4random of glibc 2.36, and with it a newer system than anything of ours.
    expect(readelf("--dynamic")).toMatch(/\(NEEDED\).*\[libstdc\+\+\.so\.6\]/);
    expect(readelf("--dyn-syms")).not.toContain("arc4random");
  });

  // On a newer system the compiler may write newer versions: such a binary is for that system alone.
  test.runIf(glibc !== undefined && compareVersions(glibc, "2.36") <= 0)(
    "loads on Ubuntu 22.04: needs nothing newer than its glibc 2.35 and its GCC 12",
    () => {
      const { GLIBC, GLIBCXX, ...others } = neededVersions(binary);
      expect(compareVersions(GLIBC ?? "99", "2.35"), `glibc ${GLIBC}`).toBeLessThanOrEqual(0);
      expect(compareVersions(GLIBCXX ?? "99", "3.4.30"), `libstdc++ ${GLIBCXX}`).toBeLessThanOrEqual(0);
      expect(Object.keys(others).sort()).toEqual(["CXXABI", "GCC"]);
      expect(compareVersions(others.CXXABI ?? "99", "1.3.13")).toBeLessThanOrEqual(0);
    },
  );

  test("stays mapped when the worker that loaded it ends", () => {
    expect(readelf("--dynamic")).toMatch(/FLAGS_1.*NODELETE/);
  });
});

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";

const binary = resolve(import.meta.dirname, "../../build/Release/hindsearch.node");
const readelf = (...options: string[]) =>
  execFileSync("readelf", ["-W", ...options, binary], { encoding: "utf8" });

describe.runIf(process.platform === "linux")("the binary", () => {
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
    const allowed = /^(libstdc\+\+\.so\.6|libgcc_s\.so\.1|lib(c|m|dl|pthread)\.so\.\d|ld-linux.*)$/;
    expect(needed.length).toBeGreaterThan(0);
    expect(needed.filter((name) => !allowed.test(name))).toEqual([]);
  });

  test("stays mapped when the worker that loaded it ends", () => {
    expect(readelf("--dynamic")).toMatch(/FLAGS_1.*NODELETE/);
  });
});

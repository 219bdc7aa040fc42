import { execFileSync } from "node:child_process";

/**
 * The newest symbol version that a Linux binary needs of each library, e.g. `GLIBC: "2.33"`. A system whose library is
 * older cannot load it.
 */
export function neededVersions(binary: string): Record<string, string> {
  const text = execFileSync("readelf", ["-W", "--version-info", binary], { encoding: "utf8" });
  const newest: Record<string, string> = {};
  for (const [, library = "", version = ""] of text.matchAll(/Name: ([A-Z]+)_([\d.]+)\s/g)) {
    const known = newest[library];
    if (known === undefined || compareVersions(version, known) > 0) newest[library] = version;
  }
  return newest;
}

/** Below, at or above 0, as `a` is older than, the same as or newer than `b`. */
export function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

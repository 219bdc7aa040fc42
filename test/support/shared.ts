import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { describe, test } from "vitest";

const folder = process.env.HINDSEARCH_SHARED ?? resolve(import.meta.dirname, "../../../shared");
const present = existsSync(folder);

if (!present && process.env.HINDSEARCH_REQUIRE_SHARED === "1") {
  throw new Error(
    `HINDSEARCH_REQUIRE_SHARED=1, but there is no folder ${folder}; set HINDSEARCH_SHARED to it.`,
  );
}

/**
 * Path of a file or folder of the shared data that some tests are measured against.
 *
 * @param parts - Path below the shared folder, e.g. `"golden", "objective"`.
 */
export function sharedPath(...parts: string[]): string {
  return resolve(folder, ...parts);
}

/**
 * `describe` for tests that read the shared folder. Without the folder they are skipped, and the name says why;
 * with HINDSEARCH_REQUIRE_SHARED=1 a missing folder fails the file instead. The body runs only if the folder exists,
 * so it may read files while tests are collected.
 *
 * @param name - Name of the suite.
 * @param body - Defines the tests.
 */
export function describeShared(name: string, body: () => void): void {
  if (present) describe(name, body);
  else test.skip(`${name} (needs the shared folder: set HINDSEARCH_SHARED)`);
}

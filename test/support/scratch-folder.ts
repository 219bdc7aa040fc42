import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";

/** A folder that exists while the tests of the calling file run; gives paths in it. */
export function scratchFolder(): (...names: string[]) => string {
  let root = "";
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "hindsearch-test-"));
  });
  afterAll(() => rm(root, { recursive: true, force: true }));
  return (...names) => join(root, ...names);
}

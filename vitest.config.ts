import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Tests and examples import "hindsearch" as a user would and get the sources, not a stale build.
  resolve: { alias: { hindsearch: fileURLToPath(new URL("./lib/index.ts", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.ts"],
    // A crash of the addon then fails one file, not the run.
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

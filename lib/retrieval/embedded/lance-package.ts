import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { loadOptional } from "../../optional-package.js";

/** What `import("@lancedb/lancedb")` gives. */
export type LancePackage = typeof import("@lancedb/lancedb");

/**
 * Threads of Lance's CPU pool. Its own choice is two fewer than there are cores, and with a pool of one thread an
 * index build over some 100,000 passages never ends.
 */
export function lanceThreads(): number {
  return Math.max(4, Number(process.env.LANCE_CPU_THREADS) || availableParallelism());
}

/**
 * Loads the optional package on first use. The thread count must be in the environment before.
 *
 * @throws {@link HindsearchError} `DEPENDENCY_MISSING`.
 */
export async function loadLance(): Promise<{ lance: LancePackage; arrow: typeof import("apache-arrow") }> {
  process.env.LANCE_CPU_THREADS = String(lanceThreads());
  const packages = ["@lancedb/lancedb@0.31.0", "apache-arrow@18.1.0"];
  return loadOptional("The embedded search engine", packages, async () => ({
    lance: await import("@lancedb/lancedb"),
    // By the same door as Lance takes: the ES module is a second copy, whose tables Lance refuses.
    arrow: createRequire(import.meta.url)("apache-arrow"),
  }));
}

import { availableParallelism } from "node:os";
import { HindsearchError } from "../errors.js";

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
export async function loadLance(): Promise<LancePackage> {
  process.env.LANCE_CPU_THREADS = String(lanceThreads());
  try {
    return await import("@lancedb/lancedb");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\n", 1)[0] : String(cause);
    throw new HindsearchError(
      "DEPENDENCY_MISSING",
      "The embedded search engine needs the optional packages @lancedb/lancedb and apache-arrow, which cannot be loaded " +
        `(${reason}). Run "npm install @lancedb/lancedb@0.31.0 apache-arrow@18.1.0" without "--omit=optional".`,
      { cause },
    );
  }
}

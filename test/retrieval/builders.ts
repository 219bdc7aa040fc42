import { readdirSync, readFileSync } from "node:fs";

/** The process ids of this process's running index builders, from Linux's process table. */
export function builders(): number[] {
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return processes.map(Number).filter((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      const parent = readFileSync(`/proc/${pid}/status`, "utf8").match(/^PPid:\s+(\d+)$/m)?.[1];
      return command.includes("embedded/builder.") && Number(parent) === process.pid;
    } catch {
      return false; // It ended meanwhile.
    }
  });
}

/** Waits until `get` gives something. */
export async function until<T>(get: () => T | undefined): Promise<T> {
  for (;;) {
    const value = get();
    if (value !== undefined) return value;
    await new Promise((done) => setTimeout(done, 20));
  }
}

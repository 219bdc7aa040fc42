import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";

/** What the system and its control group say about memory, in bytes. */
export interface MemoryFigures {
  /** What the machine could give without swapping. */
  system: number;
  /** Limit of the control group; `null`: none. */
  limit: number | null;
  /** What is left below that limit. */
  belowLimit: number;
  /** Cached file contents that count against the limit, but make way. */
  cachedFiles: number;
}

/**
 * Memory that this process can still take, in bytes: what the machine has, and on Linux what the control group of the
 * process (a container, say) leaves.
 *
 * @internal
 */
export function availableMemory(): number {
  return availableOf(readFigures());
}

/** @internal */
export function availableOf({ system, limit, belowLimit, cachedFiles }: MemoryFigures): number {
  return limit === null ? system : Math.min(system, belowLimit + cachedFiles);
}

function readFigures(): MemoryFigures {
  if (process.platform !== "linux") {
    // macOS counts what caches files as used, so what it calls free says little; a refusal must be sure.
    const system = process.platform === "win32" ? freemem() : totalmem() - process.memoryUsage.rss();
    return { system, limit: null, belowLimit: 0, cachedFiles: 0 };
  }
  const constrained = process.constrainedMemory();
  const limit = constrained > 0 && constrained < totalmem() ? constrained : null;
  const cachedFiles = limit === null ? 0 : cachedFileBytes();
  return { system: freemem(), limit, belowLimit: process.availableMemory(), cachedFiles };
}

/** Of the control group of this process; 0 where that cannot be read. */
function cachedFileBytes(): number {
  for (const path of statisticsFiles(read("/proc/self/cgroup"))) {
    const text = read(path);
    if (text !== "") return cachedFilesOf(text);
  }
  return 0;
}

/** Where the memory statistics of a control group may lie: by its path, or in a container at the root. @internal */
export function statisticsFiles(groups: string): string[] {
  const fields = groups.split("\n").map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const legacy = fields.find((field) => field?.[1]?.split(",").includes("memory"))?.[2];
  if (legacy !== undefined) {
    const root = "/sys/fs/cgroup/memory";
    return [`${root}${legacy}/memory.stat`, `${root}/memory.stat`];
  }
  const unified = fields.find((field) => field?.[1] === "")?.[2];
  const root = "/sys/fs/cgroup";
  return unified === undefined ? [] : [`${root}${unified}/memory.stat`, `${root}/memory.stat`];
}

/** The file pages of a `memory.stat`, of either version. @internal */
export function cachedFilesOf(statistics: string): number {
  const values = new Map(
    statistics.split("\n").map((line) => line.split(" ") as [name: string, value: string]),
  );
  const bytes = (name: string) => Number(values.get(`total_${name}`) ?? values.get(name) ?? 0);
  return bytes("inactive_file") + bytes("active_file");
}

/** Kernel files: no disk is waited for. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** What a result must say about where it comes from. */
import { execFileSync } from "node:child_process";
import { cpus, loadavg, totalmem } from "node:os";
import { resolve } from "node:path";
import { engine } from "hindsearch";
import type { Machine } from "./limits.js";

/** Machine, code and moment of a run. */
export interface Setting {
  date: string;
  /** With `+` behind it where the working tree has changes. */
  commit: string;
  cpu: string;
  cpus: number;
  memoryBytes: number;
  instructionSet: string;
  threads: number;
  node: string;
  platform: string;
  rounds: number;
  /** Over one, five and fifteen minutes, at the start and at the end. */
  load: { start: number[]; end: number[] };
  /** Measured at the start. */
  machine: Machine;
}

/** Describes this machine as it is now. */
export function describe(machine: Machine, threads: number, rounds: number): Setting {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: resolve(import.meta.dirname, ".."), encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no") !== "";
  return {
    date: new Date().toISOString(),
    commit: `${git("rev-parse", "--short=12", "HEAD")}${changed ? "+" : ""}`,
    cpu: cpus()[0]?.model ?? "unknown",
    cpus: cpus().length,
    memoryBytes: totalmem(),
    instructionSet: engine.instructionSet,
    threads,
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    rounds,
    load: { start: loadavg(), end: loadavg() },
    machine,
  };
}

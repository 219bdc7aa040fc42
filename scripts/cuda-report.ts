/**
 * Reads what ptxas said of the CUDA kernels, writes it as a table to build/cuda-report.txt, and fails if a kernel
 * keeps in memory what does not fit into its registers (spills).
 *
 *   tsx scripts/cuda-report.ts <CMake's build folder>
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

interface Kernel {
  file: string;
  name: string;
  architecture: string;
  registers: number;
  sharedBytes: number;
  stackBytes: number;
  spillBytes: number;
}

/** The kernels of one `.ptxas` file, with mangled names. */
function read(file: string, text: string): Kernel[] {
  const entries = text.split(/^ptxas info\s+: Compiling entry function /m).slice(1);
  return entries.map((entry) => {
    const [, name = "", architecture = ""] = /^'(\w+)' for '(\w+)'/.exec(entry) ?? [];
    const number = (pattern: RegExp) => Number(pattern.exec(entry)?.[1] ?? 0);
    const registers = number(/Used (\d+) registers/);
    // Another format would pass for a report without spills.
    if (name === "" || registers === 0 || !/\d+ bytes spill stores, \d+ bytes spill loads/.test(entry))
      throw new Error(`${file}: not what ptxas is known to say:\n${entry}`);
    return {
      file,
      name,
      architecture,
      registers,
      sharedBytes: number(/(\d+) bytes smem/),
      stackBytes: number(/(\d+) bytes stack frame/),
      spillBytes: number(/(\d+) bytes spill stores/) + number(/(\d+) bytes spill loads/),
    };
  });
}

/** Kernels with the names of the source: `norm_kernel<true>`. */
function demangled(kernels: Kernel[]): Kernel[] {
  const input = kernels.map(({ name }) => name).join("\n");
  const names = execFileSync("c++filt", { input, encoding: "utf8" }).split("\n");
  return kernels.map((kernel, i) => {
    const name = (names[i] ?? "").replace(/\(anonymous namespace\)|_GLOBAL__N__\w+/g, "");
    const bare = name
      .replaceAll("hindsearch::cuda::", "")
      .replace(/^void /, "")
      .replace(/^::/, "");
    return { ...kernel, name: bare.replace(/\((?!.*>\().*$|(?<=>)\(.*$/, "") };
  });
}

function table(kernels: Kernel[]): string {
  const rows = kernels.map((kernel) => [
    kernel.file,
    kernel.name,
    kernel.architecture,
    ...[kernel.registers, kernel.sharedBytes, kernel.stackBytes, kernel.spillBytes].map(String),
  ]);
  const all = [["file", "kernel", "arch", "registers", "shared", "stack", "spilled"], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
  return all
    .map((row) =>
      row.map((cell, c) => (c < 3 ? cell.padEnd(widths[c] ?? 0) : cell.padStart(widths[c] ?? 0))).join("  "),
    )
    .join("\n");
}

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: tsx scripts/cuda-report.ts <CMake's build folder>");
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
  path.endsWith(".ptxas"),
);
const kernels = demangled(
  files.flatMap((path) =>
    read(basename(path).replace(/\.o\.ptxas$/, ""), readFileSync(join(folder, path), "utf8")),
  ),
).sort((a, b) => `${a.file} ${a.name}`.localeCompare(`${b.file} ${b.name}`, "en"));
if (kernels.length === 0) throw new Error(`no kernel was compiled in ${folder}`);

writeFileSync("build/cuda-report.txt", `${table(kernels)}\n`);
const architectures = [...new Set(kernels.map(({ architecture }) => architecture))].sort();
const names = new Set(kernels.map(({ file, name }) => `${file} ${name}`));
console.log(`${names.size} kernels for ${architectures.join(", ")}: build/cuda-report.txt`);
const spilling = kernels.filter(({ spillBytes }) => spillBytes > 0);
if (spilling.length > 0) {
  console.error(`These kernels spill registers:\n${table(spilling)}`);
  process.exitCode = 1;
}

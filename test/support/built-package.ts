import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = resolve(import.meta.dirname, "../..");

/** What a child process printed and how it ended. */
export interface ChildResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/**
 * The package as a user has it after `npm install`: compiled JavaScript in a folder of its own, run by plain Node in
 * processes of their own. Some faults (a worker that is the only one to hold the addon, a missing binary) cannot be
 * seen from inside the test process, which has the addon loaded from the sources.
 */
export class BuiltPackage {
  private constructor(readonly folder: string) {}

  /** Compiles `lib` and copies the binary of the last native build. The caller removes it with {@link remove}. */
  static async create(): Promise<BuiltPackage> {
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-built-"));
    await cp(join(root, "package.json"), join(folder, "package.json"));
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    await run(process.execPath, [
      tsc,
      "-p",
      join(root, "tsconfig.build.json"),
      "--outDir",
      join(folder, "dist"),
    ]);
    const built = new BuiltPackage(folder);
    await built.placeBinary("build/Release/hindsearch.node");
    return built;
  }

  /** Puts the binary of the last native build at `path` below the package, and nowhere else. */
  async placeBinary(path: string): Promise<void> {
    await this.removeBinary();
    const target = join(this.folder, path);
    await mkdir(resolve(target, ".."), { recursive: true });
    await cp(join(root, "build/Release/hindsearch.node"), target);
  }

  /** Leaves the package without a binary. */
  async removeBinary(): Promise<void> {
    await rm(join(this.folder, "build"), { recursive: true, force: true });
    await rm(join(this.folder, "prebuilds"), { recursive: true, force: true });
  }

  /**
   * Runs a script in the package folder, where `"hindsearch"` is the package and `./dist/...` its inner files.
   *
   * @param source - The script.
   * @param extension - `mjs` or `cjs`.
   * @param options - `nodeArguments` before the script; `env` is added to the environment.
   */
  async run(
    source: string,
    extension: "mjs" | "cjs" = "mjs",
    options: { nodeArguments?: string[]; env?: Record<string, string> } = {},
  ): Promise<ChildResult> {
    const script = join(this.folder, `script-${Math.random().toString(36).slice(2)}.${extension}`);
    await writeFile(script, source);
    return new Promise((done) => {
      execFile(
        process.execPath,
        [...(options.nodeArguments ?? []), script],
        { cwd: this.folder, env: { ...process.env, ...options.env }, timeout: 50_000 },
        (error, stdout, stderr) => {
          const code = error === null ? 0 : typeof error.code === "number" ? error.code : null;
          done({ code, signal: error?.signal ?? null, stdout, stderr });
        },
      );
    });
  }

  /** Deletes the folder. */
  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";
import { afterAll, beforeAll } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const binary = "build/Release/hindsearch.node";

/** What a child process printed and how it ended. */
export interface ChildResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/**
 * The package as a user has it after `npm install`: JavaScript in a folder of its own, run by plain Node in processes
 * of their own. Some faults (a worker that is the only one to hold the addon, a missing binary) cannot be seen from
 * inside the test process, which has the addon loaded.
 */
export class BuiltPackage {
  folder = "";

  /** Translates `lib` and copies the binary of the last native build. Types are checked by `npm run typecheck`. */
  async create(): Promise<void> {
    this.folder = await mkdtemp(join(tmpdir(), "hindsearch-built-"));
    await cp(join(root, "package.json"), join(this.folder, "package.json"));
    await symlink(join(root, "node_modules"), join(this.folder, "node_modules"));
    for (const path of await readdir(join(root, "lib"), { recursive: true })) {
      if (/\.c?ts$/.test(path)) await this.translate(join("lib", path), join("dist", path));
    }
    for (const path of [
      "demo.ts",
      ...(await readdir(join(root, "examples/world"))).map((name) => `world/${name}`),
    ]) {
      await this.translate(join("examples", path), join("dist/examples", path));
    }
    await this.placeBinary(binary);
  }

  private async translate(path: string, to: string): Promise<void> {
    const fileName = join(root, path);
    const module = path.endsWith(".cts") ? ts.ModuleKind.CommonJS : ts.ModuleKind.ESNext;
    const compilerOptions = { module, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true };
    const { outputText } = ts.transpileModule(await readFile(fileName, "utf8"), {
      fileName,
      compilerOptions,
    });
    const target = join(this.folder, to.replace(/ts$/, "js"));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, outputText);
  }

  /** Puts the binary of the last native build at `path` below the package, and nowhere else. */
  async placeBinary(path: string): Promise<void> {
    await this.removeBinary();
    const target = join(this.folder, path);
    await mkdir(dirname(target), { recursive: true });
    await cp(join(root, binary), target);
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
   * @param env - Added to the environment.
   * @param addressSpace - Most memory that the process may map, in bytes; by default as much as it likes.
   */
  async run(
    source: string,
    extension: "mjs" | "cjs" = "mjs",
    env: Record<string, string> = {},
    addressSpace?: number,
  ): Promise<ChildResult> {
    const script = join(this.folder, `script.${extension}`);
    await writeFile(script, source);
    const options = { cwd: this.folder, env: { ...process.env, ...env }, timeout: 50_000 };
    const limit = addressSpace === undefined ? "" : `ulimit -v ${Math.floor(addressSpace / 1024)} && `;
    const [command, ...args] =
      limit === "" ? [process.execPath] : ["sh", "-c", `${limit}exec "$0" "$@"`, process.execPath];
    return new Promise((done) => {
      execFile(command as string, [...args, script], options, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : null;
        done({ code, signal: error?.signal ?? null, stdout, stderr });
      });
    });
  }

  /** Deletes the folder. */
  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A {@link BuiltPackage} that exists while the tests of the calling file run. */
export function builtPackage(): BuiltPackage {
  const built = new BuiltPackage();
  beforeAll(() => built.create());
  afterAll(() => built.remove());
  return built;
}

/**
 * Checks the package as users get it: what is in the tarball, whether its types resolve everywhere, and whether it
 * works after an install with scripts off into an empty folder, once compiled there by the command that its error
 * message names and once from a prebuilt binary; the latter also by pnpm and by yarn's Plug'n'Play.
 *
 * Run by `npm run check:package`. Exits non-zero with the output of the step that failed.
 */
import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";
import { neededVersions } from "./needed-versions.js";

const root = resolve(import.meta.dirname, "..");
const scratch = mkdtempSync(join(tmpdir(), "hindsearch-package-"));
const quiet = ["--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"];

/** Runs a command and returns what it printed; its output is shown only if it fails. */
function run(cwd: string, command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(" ")} failed in ${cwd}\n${stdout ?? ""}${stderr ?? ""}`, {
      cause: error,
    });
  }
}

function step<Result>(name: string, body: () => Result): Result {
  const start = performance.now();
  const result = body();
  console.log(`${name}: ok, ${((performance.now() - start) / 1000).toFixed(1)} s`);
  return result;
}

/** Packs `folder` and returns the tarball's path. */
function pack(folder: string, destination: string, ...args: string[]): string {
  mkdirSync(destination, { recursive: true });
  run(folder, "npm", "pack", "--pack-destination", destination, ...quiet, ...args);
  const [name] = readdirSync(destination);
  if (name === undefined) throw new Error(`npm pack wrote nothing to ${destination}`);
  return join(destination, name);
}

/** Everything a user needs is in the tarball, and nothing else; `binaries` are the names a prebuild may have. */
function checkContents(tarball: string, binaries: RegExp[]): void {
  const files = run(scratch, "tar", "-tzf", tarball)
    .trim()
    .split("\n")
    .map((path) => path.replace(/^package\//, ""));
  const needed = [
    ...[
      "package.json",
      "config.schema.json",
      "LICENSE",
      "README.md",
      "CHANGELOG.md",
      "CONTRIBUTING.md",
      "SECURITY.md",
      "docs/demo.svg",
      "CMakeLists.txt",
      "binding.gyp",
    ].map(literally),
    ...["dist/index.js", "dist/index.cjs", "dist/index.d.ts", "dist/index.d.cts"].map(literally),
    ...["index.html", "page.js", "page.css", "uPlot-LICENSE.txt"].map((name) =>
      literally(`dist/dashboard/page/${name}`),
    ),
    ...binaries,
  ];
  const missing = needed.filter((pattern) => !files.some((path) => pattern.test(path)));
  if (missing.length > 0) throw new Error(`missing in the tarball: ${missing.join(", ")}`);
  const others = [
    /^dist\/.+\.(js|cjs|d\.ts|d\.cts|map|html|css)$/,
    /^docs\/[a-z-]+\.md$/,
    /^examples\/(README\.md|.+\.ts)$/,
    /^native\/(?!test\/).+\.(h|cc|cu)$/,
    literally("native/backend/cuda/keep_report.sh"),
    /^native\/(.+\/)?CMakeLists\.txt$/,
  ];
  const surplus = files.filter((path) => ![...needed, ...others].some((pattern) => pattern.test(path)));
  if (surplus.length > 0) throw new Error(`does not belong in the tarball: ${surplus.join(", ")}`);
  // A loader takes the first one of a folder, whatever its name.
  const found = files.filter((path) => path.endsWith(".node"));
  if (found.length !== binaries.length) throw new Error(`binaries in the tarball: ${found.join(", ")}`);
}

function literally(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(".", "\\.")}$`);
}

/** Installs a tarball into an empty project without running any script. */
function install(tarball: string, folder: string): void {
  mkdirSync(folder);
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ name: "user", private: true, type: "module" }),
  );
  run(folder, "npm", "install", tarball, "--ignore-scripts", ...quiet);
}

/** Without a binary the package says what to run; that builds it, by the install script and with run-time dependencies. */
function followAdvice(folder: string): void {
  writeFileSync(
    join(folder, "advice.js"),
    `import { engine } from "hindsearch";
     try {
       console.log("works with " + engine.threads);
     } catch ({ code, message }) {
       console.log(code === "ADDON_NOT_FOUND" ? /run "(.+?)"/.exec(message)[1] : message);
     }`,
  );
  const advice = run(folder, process.execPath, "advice.js").trim();
  if (advice !== "npm rebuild hindsearch") throw new Error(`without a binary the package says: ${advice}`);
  run(folder, "npm", "rebuild", "hindsearch", ...quiet);
}

/** Most bytes of a tarball: of sources, and with a prebuild. */
const MOST_BYTES = { sources: 1.8e6, prebuilt: 4.2e6 };

function checkSize(tarball: string, most: number): void {
  const { size } = statSync(tarball);
  console.log(`the tarball has ${(size / 1e6).toFixed(2)} MB, of ${most / 1e6} MB that it may have`);
  if (size > most) throw new Error(`${tarball} has ${size} bytes, more than ${most}`);
}

/** Installs by another package manager than npm into an empty project, and uses the package there. */
function checkManager(manager: "pnpm" | "yarn", tarball: string, folder: string): void {
  mkdirSync(folder);
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ name: "user", private: true, type: "module" }),
  );
  if (manager === "pnpm") {
    run(folder, "npx", "--yes", "pnpm@10.34.9", "add", tarball, "--ignore-scripts");
    checkUse(folder);
    return;
  }
  // Without node_modules: packages stay in archives, and only what a package declares can be imported.
  writeFileSync(
    join(folder, ".yarnrc.yml"),
    "nodeLinker: pnp\nenableScripts: false\nenableTelemetry: false\n",
  );
  const yarn = ["npx", "--yes", "-p", "@yarnpkg/cli-dist@4.18.1", "yarn"];
  run(folder, "npx", ...yarn.slice(1), "add", tarball);
  // Node asks no loader, and so not Yarn, for the imports of an ES module that is required.
  checkUse(folder, { node: [...yarn, "node"], command: yarn, require: false });
}

/** Uses an installed package from both module systems, and trains with it. */
function checkUse(
  folder: string,
  { node = [process.execPath], command = ["npx", "--no-install"], require = true } = {},
): void {
  const runWith = ([program = "", ...before]: string[], ...words: string[]) =>
    run(folder, program, ...before, ...words);
  writeFileSync(
    join(folder, "both.js"),
    `import { createRequire } from "node:module";
     import * as esm from "hindsearch";
     const cjs = createRequire(import.meta.url)("hindsearch");
     const names = Object.keys(esm);
     if (names.length === 0) throw new Error("hindsearch exports nothing");
     for (const name of names) if (cjs[name] !== esm[name]) throw new Error("two copies of " + name);`,
  );
  runWith(node, "both.js");
  writeFileSync(
    join(folder, "require.cjs"),
    `const { normalizeAnswer } = require("hindsearch");
     if (normalizeAnswer("The Answer!") !== "answer") throw new Error(normalizeAnswer("The Answer!"));`,
  );
  if (require) runWith(node, "require.cjs");
  writeFileSync(
    join(folder, "import.cjs"),
    `import("hindsearch").then(({ normalizeAnswer }) => {
       if (normalizeAnswer("The Answer!") !== "answer") throw new Error(normalizeAnswer("The Answer!"));
     });`,
  );
  runWith(node, "import.cjs");
  const said = runWith(command, "hindsearch", "doctor");
  if (!said.includes("Nothing is wrong.")) throw new Error(`hindsearch doctor says:\n${said}`);
  for (const name of ["own-loop.ts", "own-loop/tiny-world.ts"])
    copyAsJavaScript(join(root, "examples", name), join(folder, name));
  runWith(node, "own-loop.js");
}

/** Writes a TypeScript example as the JavaScript that plain Node runs. */
function copyAsJavaScript(source: string, target: string): void {
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(
    target.replace(/\.ts$/, ".js"),
    ts.transpileModule(readFileSync(source, "utf8"), { compilerOptions }).outputText,
  );
}

/** Makes a tarball that carries a prebuilt binary, from the sources in `tarball`; the working tree stays as it is. */
function packWithPrebuild(tarball: string): string {
  const folder = join(scratch, "package");
  run(scratch, "tar", "-xzf", tarball);
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const binary = join(root, "build/Release/hindsearch.node");
  const { mtimeMs } = statSync(binary);
  run(folder, "npm", "run", "prebuilds");
  // prebuildify moves what it built, so that it must not build here.
  if (statSync(binary).mtimeMs !== mtimeMs) throw new Error(`${binary} was touched`);
  // The JavaScript is in the tarball already: packing must not compile it again.
  return pack(folder, join(scratch, "prebuilt"), "--ignore-scripts");
}

try {
  const tarball = step("pack", () => pack(root, join(scratch, "source")));
  step("contents of the tarball", () => checkContents(tarball, []));
  step("size of the tarball", () => checkSize(tarball, MOST_BYTES.sources));
  step("publint", () => run(root, "npx", "--no-install", "publint", "run", tarball, "--strict"));
  step("attw", () => run(root, "npx", "--no-install", "attw", tarball));
  const fromSource = join(scratch, "from-source");
  step("install of the sources with scripts off", () => install(tarball, fromSource));
  step("compiled as the error message says", () => followAdvice(fromSource));
  step("use of what was compiled", () => checkUse(fromSource));
  const prebuilt = step("prebuild", () => packWithPrebuild(tarball));
  step("contents of the tarball with a prebuild", () =>
    checkContents(prebuilt, [
      new RegExp(`^prebuilds/${process.platform}-${process.arch}/hindsearch[^/]*\\.node$`),
    ]),
  );
  step("size of the tarball with a prebuild", () => checkSize(prebuilt, MOST_BYTES.prebuilt));
  const fromPrebuild = join(scratch, "from-prebuild");
  step("install of the prebuild with scripts off", () => install(prebuilt, fromPrebuild));
  step("use of the prebuild", () => checkUse(fromPrebuild));
  for (const manager of ["pnpm", "yarn"] as const)
    step(`the prebuild by ${manager}`, () => checkManager(manager, prebuilt, join(scratch, manager)));
  if (process.platform === "linux") {
    const prebuilds = join(fromPrebuild, `node_modules/hindsearch/prebuilds/linux-${process.arch}`);
    const [binary = ""] = readdirSync(prebuilds);
    const { GLIBC, GLIBCXX } = neededVersions(join(prebuilds, binary));
    console.log(`the prebuild needs glibc ${GLIBC} and libstdc++ ${GLIBCXX} or later`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { HindsearchError } from "../errors.js";
import type { Addon } from "./addon.js";

const require = createRequire(import.meta.url);
/** The package folder: two levels above this file in the sources and in `dist` alike. */
const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

let loaded: Addon | undefined;

/**
 * The native engine, loaded on the first call. Nothing else in the package touches the binary, so whatever
 * does not compute (retrieval, judging, rewards) works where it cannot be loaded.
 *
 * @throws {@link HindsearchError} `ADDON_NOT_FOUND` if there is no binary for this machine,
 * `ADDON_LOAD_FAILED` if there is one and it cannot be used. A failure is not remembered: the next call tries again.
 */
export function loadAddon(): Addon {
  loaded ??= open(find());
  return loaded;
}

function find(): string {
  const { resolve } = require("node-gyp-build") as { resolve(root: string): string };
  try {
    return resolve(packageRoot);
  } catch (cause) {
    throw new HindsearchError(
      "ADDON_NOT_FOUND",
      `No native engine for ${machine()} in ${packageRoot}: looked in build/Release, build/Debug and ` +
        `prebuilds/${process.platform}-${process.arch}. npm builds it when the package is installed, unless install ` +
        "scripts are switched off or not approved. Allow the install script of hindsearch, then run " +
        '"npm rebuild hindsearch" (needs a C++20 compiler, CMake 3.25 and Python 3).',
      { cause },
    );
  }
}

function open(path: string): Addon {
  let addon: Addon;
  try {
    addon = require(path) as Addon;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HindsearchError(
      "ADDON_LOAD_FAILED",
      `The native engine at ${path} cannot be loaded on ${machine()}: ${reason}. ` +
        'It was probably built on another system: run "npm rebuild hindsearch".',
      { cause },
    );
  }
  const { version } = require("../../package.json") as { version: string };
  if (addon.version !== version) {
    throw new HindsearchError(
      "ADDON_LOAD_FAILED",
      `The native engine at ${path} is of version ${addon.version}, this package of version ${version}. ` +
        'It is left over from another version: run "npm rebuild hindsearch".',
    );
  }
  return addon;
}

function machine(): string {
  return `${process.platform}-${process.arch} with Node ${process.versions.node}`;
}

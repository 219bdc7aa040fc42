import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { HindsearchError } from "../errors.js";
import type { Addon, DeviceName } from "./addon.js";
import { isCutOff } from "./elf.js";

const require = createRequire(import.meta.url);
/** The package folder: two levels above this file in the sources and in `dist` alike. */
const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

/** Below the folder of the CPU's addon, whether that was compiled or came as a prebuild. */
const CUDA_ADDON = join("cuda", "hindsearch-cuda.node");

const REBUILD: Readonly<Record<DeviceName, string>> = {
  cpu: '"npm rebuild hindsearch"',
  cuda: '"HINDSEARCH_CUDA=ON npm rebuild hindsearch --build-from-source"',
};

const loaded = new Map<DeviceName, Addon>();

/**
 * The native engine, loaded on the first call. Nothing else in the package touches the binary, so whatever
 * does not compute (retrieval, judging, rewards) works where it cannot be loaded.
 *
 * The engine of a GPU is an addon of its own, with the same exports and threads of its own. It loads on machines
 * without a driver too; what it finds there, its `device()` says.
 *
 * @throws {@link HindsearchError} `ADDON_NOT_FOUND` if there is no binary for this machine, `DEVICE_UNAVAILABLE` if
 * there is none for the GPU, `ADDON_LOAD_FAILED` if there is one and it cannot be used. A failure is not remembered:
 * the next call tries again.
 */
export function loadAddon(device: DeviceName = "cpu"): Addon {
  let addon = loaded.get(device);
  if (addon === undefined) {
    addon = open(device, device === "cpu" ? find() : findCuda());
    for (const other of loaded.values()) addon.setThreads(other.threads());
    loaded.set(device, addon);
  }
  return addon;
}

/** The CPU's addon, and those of other devices that something has asked for. */
export function loadedAddons(): Addon[] {
  loadAddon();
  return [...loaded.values()];
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
        `${REBUILD.cpu} (needs a C++20 compiler, CMake 3.25 and Python 3).`,
      { cause },
    );
  }
}

/**
 * Where the addon of a device lies, or has its place.
 *
 * @throws {@link HindsearchError} `ADDON_NOT_FOUND`.
 */
export function addonPath(device: DeviceName): string {
  const cpu = find();
  return device === "cpu" ? cpu : join(dirname(cpu), CUDA_ADDON);
}

function findCuda(): string {
  const path = addonPath("cuda");
  if (existsSync(path)) return path;
  throw new HindsearchError(
    "DEVICE_UNAVAILABLE",
    `The CUDA engine is not installed: there is no ${path}. Build it where the CUDA toolkit (nvcc) is: ${REBUILD.cuda}, ` +
      'or "npm run build:cuda" in a clone. device: "cpu" needs none.',
  );
}

function open(device: DeviceName, path: string): Addon {
  let addon: Addon;
  try {
    if (statSync(path).isFile() && isCutOff(path)) throw new Error("the file is cut off");
    addon = require(path) as Addon;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new HindsearchError(
      "ADDON_LOAD_FAILED",
      `The native engine at ${path} cannot be loaded on ${machine()}: ${reason}. ` +
        `It was built on another system, or not copied whole: run ${REBUILD[device]}.`,
      { cause },
    );
  }
  const { version } = require("../../package.json") as { version: string };
  if (addon.version !== version) {
    throw new HindsearchError(
      "ADDON_LOAD_FAILED",
      `The native engine at ${path} is of version ${addon.version}, this package of version ${version}. ` +
        `It is left over from another version: run ${REBUILD[device]}.`,
    );
  }
  return addon;
}

function machine(): string {
  return `${process.platform}-${process.arch} with Node ${process.versions.node}`;
}

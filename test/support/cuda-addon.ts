import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { DeviceInfo } from "../../lib/native/addon.js";
import type { BuiltPackage } from "./built-package.js";

/**
 * A stand-in for the CUDA addon: a copy of the CPU's, which is a second addon to Node, behind a module that answers for
 * the device.
 *
 * @param device - What `device()` says.
 * @param version - In place of the package's.
 */
export async function placeCudaStandIn(
  built: BuiltPackage,
  device: Partial<DeviceInfo>,
  version?: string,
): Promise<void> {
  const place = await emptied(built);
  await mkdir(place);
  await cp(join(built.folder, "build/Release/hindsearch.node"), join(place, "engine.node"));
  const info: DeviceInfo = { available: true, description: "a GPU", totalBytes: 0, freeBytes: 0, ...device };
  const overrides = { ...(version && { version }) };
  await writeFile(join(place, "package.json"), '{ "type": "commonjs" }');
  await writeFile(
    join(place, "index.js"),
    `module.exports = { ...require("./engine.node"), ...${JSON.stringify(overrides)}, device: async () => (${JSON.stringify(info)}) };`,
  );
}

/** The CUDA addon of the last build, if there is one. */
export const CUDA_BINARY = resolve(import.meta.dirname, "../../build/Release/cuda/hindsearch-cuda.node");

/** Puts that into the package. */
export async function placeCudaBinary(built: BuiltPackage): Promise<void> {
  await cp(CUDA_BINARY, await emptied(built));
}

/** A file of any content in the place of the CUDA addon. */
export async function placeCudaFile(built: BuiltPackage, content: Uint8Array | string): Promise<void> {
  await writeFile(await emptied(built), content);
}

async function emptied(built: BuiltPackage): Promise<string> {
  const folder = join(built.folder, "build/Release/cuda");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  return join(folder, "hindsearch-cuda.node");
}

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { HindsearchError } from "../errors.js";
import { openRegularFile } from "./json-file.js";

/** The files beside the weights that a saved copy needs, and what none of them exceeds in bytes. */
const COMPANIONS: ReadonlyMap<string, number> = new Map([
  ["config.json", 2 ** 22],
  ["generation_config.json", 2 ** 22],
  ["tokenizer.json", 2 ** 28],
  ["tokenizer_config.json", 2 ** 26],
  ["tokenizer.model", 2 ** 28],
  ["special_tokens_map.json", 2 ** 24],
  ["added_tokens.json", 2 ** 24],
  ["vocab.json", 2 ** 28],
  ["merges.txt", 2 ** 28],
  ["chat_template.jinja", 2 ** 22],
]);

/** Contents of the files beside the weights, by name. @internal */
export type ModelFiles = ReadonlyMap<string, string | Uint8Array>;

/**
 * Reads the files beside the weights, so that a trained model is saved with the very bytes it came with, also when its
 * folder is gone or being overwritten by then.
 *
 * @throws {@link HindsearchError} `IO`; `INVALID_CHECKPOINT` for a file too large to be what its name says.
 * @internal
 */
export async function readModelFiles(folder: string): Promise<ModelFiles> {
  const present = new Set(await readdir(folder));
  const files = new Map<string, Uint8Array>();
  for (const [name, most] of COMPANIONS) {
    if (!present.has(name)) continue;
    const path = join(folder, name);
    const { file, size } = await openRegularFile(path);
    try {
      if (size > most) {
        throw new HindsearchError("INVALID_CHECKPOINT", `${path} has ${size} bytes, more than any ${name}.`);
      }
      files.set(name, await file.readFile());
    } finally {
      await file.close();
    }
  }
  return files;
}

/** What a model loader takes for safetensors weights, whole or in shards. */
const WEIGHTS = /^model(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;

/**
 * Deletes the weights that lie in a folder, but for `keep`. The index goes first: without one, loaders refuse a folder
 * of shards instead of mixing them with others.
 *
 * @internal
 */
export async function removeWeights(folder: string, keep: string): Promise<void> {
  const stale = (await readdir(folder)).filter((name) => WEIGHTS.test(name) && name !== keep);
  const isShard = (name: string) => Number(!name.endsWith(".index.json"));
  stale.sort((a, b) => isShard(a) - isShard(b));
  for (const name of stale) await rm(join(folder, name), { force: true });
}

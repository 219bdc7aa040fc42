import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { isJsonObject, type JsonObject, readJsonFile } from "./json-file.js";
import { readSafetensorsHeader, type TensorEntry } from "./safetensors.js";

const SINGLE_FILE = "model.safetensors";
const INDEX_FILE = "model.safetensors.index.json";

/** A tensor of a folder, whatever its type. @internal */
export interface StoredTensor extends TensorEntry {
  /** The file it is in. */
  path: string;
  /** Its first byte, from the start of the file. */
  offset: number;
}

/**
 * Finds every tensor in the weight files of a folder: `model.safetensors`, or the shards that
 * `model.safetensors.index.json` names and no others.
 *
 * @param folder - Untrusted.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if there are no such files or both, if the index names a file
 * outside the folder or one that is missing, or if index and shards disagree; `IO`, `ABORTED`.
 * @internal
 */
export async function findStoredTensors(
  folder: string,
  options: AbortOptions = {},
): Promise<Map<string, StoredTensor>> {
  const names = new Set(await listFolder(folder));
  if (names.has(SINGLE_FILE) && names.has(INDEX_FILE)) {
    throw invalid(folder, `has both ${SINGLE_FILE} and ${INDEX_FILE}; remove the one that is out of date`);
  }
  if (names.has(SINGLE_FILE)) return readTensors(join(folder, SINGLE_FILE));
  if (!names.has(INDEX_FILE)) throw missingWeights(folder, names);

  const shardOf = parseIndex(await readJsonFile(join(folder, INDEX_FILE), 2 ** 26), folder);
  const tensors = new Map<string, StoredTensor>();
  for (const shard of new Set(shardOf.values())) {
    throwIfAborted(options.signal);
    if (!names.has(shard)) {
      throw invalid(
        folder,
        `lacks ${shard}, which ${INDEX_FILE} names; download the file or correct the index`,
      );
    }
    for (const [name, tensor] of await readTensors(join(folder, shard))) {
      if (shardOf.get(name) !== shard) {
        throw invalid(folder, `${shard} holds the tensor ${name}, which ${INDEX_FILE} does not place there`);
      }
      tensors.set(name, tensor);
    }
  }
  for (const [name, shard] of shardOf) {
    if (!tensors.has(name))
      throw invalid(folder, `${INDEX_FILE} places ${name} in ${shard}, which does not hold it`);
  }
  return tensors;
}

async function readTensors(path: string): Promise<Map<string, StoredTensor>> {
  const { tensors, dataOffset } = await readSafetensorsHeader(path);
  return new Map(
    [...tensors].map(([name, entry]) => [name, { ...entry, path, offset: dataOffset + entry.begin }]),
  );
}

async function listFolder(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    throw new HindsearchError("IO", `Cannot read the model folder ${folder}: ${(cause as Error).message}.`, {
      cause,
    });
  }
}

function missingWeights(folder: string, names: ReadonlySet<string>): HindsearchError {
  const pickled = [...names].find((name) => /\.(bin|pt|pth)(\.index\.json)?$/.test(name));
  return pickled === undefined
    ? invalid(folder, `has neither ${SINGLE_FILE} nor ${INDEX_FILE}`)
    : invalid(
        folder,
        `has ${pickled} but no safetensors; pickled weights can run code and are never read. Convert them once with ` +
          'transformers: AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto")' +
          ".save_pretrained(folder, safe_serialization=True)",
      );
}

/** The map from tensor names to shards; a shard is the plain name of a file of the folder. */
function parseIndex(index: JsonObject | null, folder: string): Map<string, string> {
  const map = index?.weight_map;
  const entries = isJsonObject(map) ? Object.entries(map) : [];
  if (entries.length === 0) throw invalid(folder, `${INDEX_FILE} has no weight_map`);
  for (const [name, shard] of entries) {
    if (typeof shard !== "string" || !/^[^\0/\\]+\.safetensors$/.test(shard) || shard.startsWith("..")) {
      throw invalid(
        folder,
        `${INDEX_FILE} places ${name} in ${JSON.stringify(shard)}; expected the name of a .safetensors file in the folder`,
      );
    }
  }
  return new Map(entries as [string, string][]);
}

function invalid(folder: string, what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `Model folder ${folder}: ${what}.`);
}

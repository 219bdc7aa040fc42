import { access, open } from "node:fs/promises";
import { join } from "node:path";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { StorageType, TensorSource } from "../native/model.js";
import { type ModelDescription, parseModelConfig, parseTokenIds } from "./config.js";
import { type JsonObject, readExactly, readJsonFile } from "./json-file.js";
import { modelTensors } from "./model-tensors.js";
import { storageTypeOf } from "./safetensors.js";
import { loadTokenizer, type Tokenizer } from "./tokenizer.js";
import { findStoredTensors, type StoredTensor } from "./weight-files.js";

/** A model folder whose files were read and checked; the weights themselves are not loaded yet. */
export interface Checkpoint {
  /** Family, sizes and switches; `config.tokenLimit` is the tokenizer's size where there is a tokenizer. */
  description: ModelDescription;
  /** The `config.json` as it stands, to be saved again with the model. */
  rawConfig: JsonObject;
  /** Where every parameter of the model lies, in the order of {@link modelTensors}. */
  tensors: TensorSource[];
  /** The tokenizer; `null` for a folder without `tokenizer.json`. */
  tokenizer: Tokenizer | null;
  /**
   * Every id that ends a text: the union of `eos_token_id` in `config.json` and in `generation_config.json` and of the
   * tokenizer's `eos_token`, ascending. Files often name only one of the several ids that a model was trained to end with.
   */
  eosTokenIds: number[];
}

const COMPARED_BYTES = 1 << 22;

/**
 * Opens a Hugging Face model folder and checks everything but the numbers: the config, the tokenizer, and that the weight
 * files hold exactly the parameters of the model, as F32, F16 or BF16 in the right shapes.
 *
 * Tensors that are no parameters are an error, because they mean that the model is another one than its config says. Two
 * kinds are known to be harmless and left out: `*.rotary_emb.inv_freq` buffers of old versions, which follow from the
 * config, and a `lm_head.weight` beside tied embeddings, which must then be a copy of them to the byte.
 *
 * @param folder - Untrusted.
 * @param options - `signal` ends the call.
 * @throws {@link HindsearchError} `UNSUPPORTED_MODEL`, `INVALID_CHECKPOINT` or `IO` naming file and reason; `ABORTED`.
 */
export async function openCheckpoint(folder: string, options: AbortOptions = {}): Promise<Checkpoint> {
  throwIfAborted(options.signal);
  const rawConfig = await readJsonFile(join(folder, "config.json"), 2 ** 22);
  if (rawConfig === null)
    throw invalid(folder, "there is no config.json, so this is no Hugging Face model folder");
  const description = parseModelConfig(rawConfig);
  const { config } = description;

  const tokenizer = await loadTokenizerIfPresent(folder);
  if (tokenizer !== null) {
    if (tokenizer.size > config.vocabulary) {
      throw invalid(
        folder,
        `the tokenizer has ${tokenizer.size} ids, the model only ${config.vocabulary} embedding rows (vocab_size)`,
      );
    }
    config.tokenLimit = tokenizer.size;
  }

  const stored = await findStoredTensors(folder, options);
  const tensors = modelTensors(config).map(({ name, shape }) => source(name, shape, stored, folder));
  await checkRest(stored, description, folder, options);
  return {
    description,
    rawConfig,
    tensors,
    tokenizer,
    eosTokenIds: await uniteEosTokenIds(folder, description, tokenizer),
  };
}

async function loadTokenizerIfPresent(folder: string): Promise<Tokenizer | null> {
  const present = await access(join(folder, "tokenizer.json")).then(
    () => true,
    () => false,
  );
  return present ? loadTokenizer(folder) : null;
}

function source(
  name: string,
  shape: number[],
  stored: ReadonlyMap<string, StoredTensor>,
  folder: string,
): TensorSource {
  const tensor = stored.get(name);
  if (tensor === undefined) throw invalid(folder, `the weights lack ${name} of shape [${shape.join(", ")}]`);
  if (tensor.shape.join() !== shape.join()) {
    throw invalid(
      folder,
      `${name} has the shape [${tensor.shape.join(", ")}]; by config.json it is [${shape.join(", ")}]`,
    );
  }
  const { path, offset, begin, end } = tensor;
  return { name, path, offset, bytes: end - begin, type: weightType(name, tensor, folder), shape };
}

function weightType(name: string, tensor: StoredTensor, folder: string): StorageType {
  const type = storageTypeOf(tensor.dtype);
  if (type !== undefined) return type;
  throw new HindsearchError(
    "UNSUPPORTED_MODEL",
    `Model folder ${folder}: ${name} is ${tensor.dtype}; weights must be F32, F16 or BF16.`,
  );
}

async function checkRest(
  stored: ReadonlyMap<string, StoredTensor>,
  { config, family }: ModelDescription,
  folder: string,
  options: AbortOptions,
): Promise<void> {
  const parameters = new Set(modelTensors(config).map(({ name }) => name));
  for (const [name, tensor] of stored) {
    if (parameters.has(name) || name.endsWith(".rotary_emb.inv_freq")) continue;
    if (!config.tied || name !== "lm_head.weight") {
      throw invalid(folder, `${name} is no parameter of a ${family} model with this config.json`);
    }
    const embedding = stored.get("model.embed_tokens.weight") as StoredTensor;
    if (tensor.dtype === embedding.dtype && (await sameBytes(tensor, embedding, options))) continue;
    throw invalid(
      folder,
      "config.json ties the embeddings (tie_word_embeddings), but lm_head.weight differs from " +
        "model.embed_tokens.weight; set it to false to keep both, or remove lm_head.weight",
    );
  }
}

async function sameBytes(a: StoredTensor, b: StoredTensor, options: AbortOptions): Promise<boolean> {
  const length = a.end - a.begin;
  if (length !== b.end - b.begin) return false;
  const files = await Promise.all([open(a.path), open(b.path)]);
  try {
    for (let done = 0; done < length; done += COMPARED_BYTES) {
      throwIfAborted(options.signal);
      const size = Math.min(COMPARED_BYTES, length - done);
      const [left, right] = await Promise.all([
        readExactly(files[0], a.offset + done, size, a.path),
        readExactly(files[1], b.offset + done, size, b.path),
      ]);
      if (!left.equals(right)) return false;
    }
    return true;
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

async function uniteEosTokenIds(
  folder: string,
  { config, eosTokenIds }: ModelDescription,
  tokenizer: Tokenizer | null,
): Promise<number[]> {
  const generation = await readJsonFile(join(folder, "generation_config.json"), 2 ** 22);
  const declared = [
    ...eosTokenIds,
    ...parseTokenIds(generation?.eos_token_id, "generation_config.json: eos_token_id", config.vocabulary),
    ...(tokenizer?.eosTokenIds ?? []),
  ];
  const unknown = declared.find((id) => id >= config.tokenLimit);
  if (unknown !== undefined) {
    throw invalid(folder, `eos_token_id ${unknown} is none of the tokenizer's ${config.tokenLimit} ids`);
  }
  return [...new Set(declared)].sort((a, b) => a - b);
}

function invalid(folder: string, what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `Model folder ${folder}: ${what}.`);
}

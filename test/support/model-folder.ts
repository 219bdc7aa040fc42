import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { StorageType } from "../../lib/native/model.js";
import { parseModelConfig } from "../../lib/policy/config.js";
import type { JsonObject } from "../../lib/policy/json-file.js";
import { modelTensors } from "../../lib/policy/model-tensors.js";
import { buildSafetensorsHeader } from "../../lib/policy/safetensors.js";

/** A config of a few hundred parameters. */
export const smallConfig: JsonObject = {
  architectures: ["Qwen2ForCausalLM"],
  model_type: "qwen2",
  hidden_size: 8,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  intermediate_size: 12,
  vocab_size: 20,
  max_position_embeddings: 64,
  rope_theta: 1e4,
  tie_word_embeddings: false,
  eos_token_id: 2,
};

/** A tensor with the bytes it is filled with. */
export interface FilledTensor {
  name: string;
  type: StorageType;
  shape: readonly number[];
  /** Value of every byte. Default 0. */
  fill?: number;
}

/** The parameters that a config asks for. */
export function parametersOf(config: JsonObject, type: StorageType = "f32"): FilledTensor[] {
  return modelTensors(parseModelConfig(config).config).map((tensor) => ({ ...tensor, type }));
}

/** Writes a safetensors file. */
export async function writeTensors(path: string, tensors: readonly FilledTensor[]): Promise<void> {
  const header = buildSafetensorsHeader(tensors);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const data = tensors.map(({ type, shape, fill = 0 }) =>
    Buffer.alloc(
      shape.reduce((product, size) => product * size, type === "f32" ? 4 : 2),
      fill,
    ),
  );
  await writeFile(path, Buffer.concat([length, header, ...data]));
}

/** Writes a model folder: `config.json` and the given files, objects as JSON. */
export async function writeModelFolder(
  folder: string,
  config: JsonObject,
  files: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  await mkdir(folder, { recursive: true });
  for (const [name, content] of Object.entries({ "config.json": config, ...files })) {
    await writeFile(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  return folder;
}

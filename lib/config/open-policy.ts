import { join } from "node:path";
import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { engine } from "../policy/engine.js";
import { isJsonObject, type JsonObject, readJsonFile, readTextFile } from "../policy/json-file.js";
import { Policy } from "../policy/policy.js";
import type {
  ComputeOptions,
  Device,
  InitializeOptions,
  MemoryOptions,
  TokenizerFiles,
} from "../policy/policy-options.js";
import { defined } from "./defined.js";
import type { ReadConfiguration } from "./read.js";

const [MOST_CONFIG, MOST_TOKENIZER] = [2 ** 20, 2 ** 28];

/**
 * Opens the model of a configuration.
 *
 * @param options - `folder`: another model in its place, such as a checkpoint; `device`: in place of the configured one.
 * @throws {@link HindsearchError} What `Policy.load` and `Policy.initialize` throw.
 */
export async function openPolicy(
  configuration: ReadConfiguration,
  { folder, device, signal }: AbortOptions & { folder?: string | undefined; device?: Device } = {},
): Promise<Policy> {
  configuration.requireVariables("model");
  const { model } = configuration.values;
  if (model.threads !== undefined) engine.threads = model.threads;
  const options = { ...modelOptions(configuration), ...(device && { device }) };
  const place = folder ?? (model.folder && configuration.resolve(model.folder));
  if (place !== undefined) return Policy.load(place, { ...options, signal });
  return Policy.initialize({ ...(await initialization(configuration)), ...options });
}

/** Where models compute, and within what limit. */
export function modelOptions({ values }: ReadConfiguration): ComputeOptions & MemoryOptions {
  const { device, compute, memoryLimit } = values.model;
  return { device, compute, ...(memoryLimit !== undefined && { memoryLimit }) };
}

/**
 * The `config.json` of the configured model, without loading any weight.
 *
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT`, `IO`.
 */
export async function modelConfigOf(configuration: ReadConfiguration): Promise<JsonObject> {
  const { folder, initialize } = configuration.values.model;
  const file =
    folder === undefined
      ? configuration.resolve((initialize as { config: string }).config)
      : join(configuration.resolve(folder), "config.json");
  return required(file, MOST_CONFIG);
}

async function initialization(configuration: ReadConfiguration): Promise<InitializeOptions> {
  const { tokenizer, ...rest } = configuration.values.model.initialize as NonNullable<
    ReadConfiguration["values"]["model"]["initialize"]
  >;
  return {
    ...defined(rest),
    config: await modelConfigOf(configuration),
    tokenizer: await tokenizerFiles(configuration.resolve(tokenizer)),
  };
}

async function tokenizerFiles(folder: string): Promise<TokenizerFiles> {
  const json = await required(join(folder, "tokenizer.json"), MOST_TOKENIZER);
  const config = await readJsonFile(join(folder, "tokenizer_config.json"), MOST_TOKENIZER);
  const chatTemplate = await readTextFile(join(folder, "chat_template.jinja"), MOST_CONFIG);
  return {
    json,
    ...(isJsonObject(config) && { config }),
    ...(chatTemplate !== null && { chatTemplate }),
  };
}

async function required(file: string, maxBytes: number): Promise<JsonObject> {
  const found = await readJsonFile(file, maxBytes);
  if (found !== null) return found;
  throw new HindsearchError("IO", `There is no file ${file}.`);
}

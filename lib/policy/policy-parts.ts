import { HindsearchError } from "../errors.js";
import type { DeviceName, MadeModel } from "../native/addon.js";
import { callCancellable, callNative } from "../native/call.js";
import type { NativeModelConfig, StorageType } from "../native/model.js";
import { openCheckpoint } from "./checkpoint.js";
import { chooseCompute } from "./compute.js";
import { type ModelFamily, parseModelConfig, withStorage } from "./config.js";
import { toUint64 } from "./decoder.js";
import { openDevice } from "./device.js";
import type { JsonObject } from "./json-file.js";
import { requireLoading } from "./memory/limit.js";
import { type ModelFiles, readModelFiles } from "./model-files.js";
import type { InitializeOptions, LoadOptions, SaveOptions } from "./policy-options.js";
import { saveModel } from "./save.js";
import { createTokenizerInTurns, type Tokenizer } from "./tokenizer.js";

/** What a policy is made of. */
export interface PolicyParts extends MadeModel {
  device: DeviceName;
  family: ModelFamily;
  config: Readonly<NativeModelConfig>;
  /** The `config.json` that a saved copy gets. */
  rawConfig: JsonObject;
  /** The files that a saved copy gets beside its weights. */
  files: ModelFiles;
  /** What each weight was stored as, if it was. */
  storage: ReadonlyMap<string, StorageType>;
  tokenizer: Tokenizer | null;
  eosTokenIds: readonly number[];
}

/** See {@link Policy.load}. */
export async function loadParts(folder: string, options: LoadOptions): Promise<PolicyParts> {
  const { signal, memoryLimit } = options;
  const opened = await openDevice(options.device);
  const { addon } = opened;
  const compute = chooseCompute(options.compute, opened);
  const checkpoint = await openCheckpoint(folder, { signal });
  const { description, rawConfig, tensors, tokenizer, eosTokenIds } = checkpoint;
  const { config, family } = description;
  const files = await readModelFiles(folder);
  await requireLoading({ config, compute, device: opened.device }, memoryLimit);
  const native = await callCancellable(
    addon,
    (cancellation) => addon.load(config, compute, tensors, cancellation),
    signal,
  );
  const storage = new Map(tensors.map(({ name, type }) => [name, type]));
  return { native, ...opened, family, config, rawConfig, files, storage, tokenizer, eosTokenIds };
}

/** See {@link Policy.initialize}. */
export async function initializeParts(options: InitializeOptions): Promise<PolicyParts> {
  const { tokenizer: tokenizerFiles, seed = 0n, memoryLimit } = options;
  const opened = await openDevice(options.device);
  const compute = chooseCompute(options.compute, opened);
  const rawConfig = withStorage(options.config, "f32");
  const { family, config, eosTokenIds } = parseModelConfig(rawConfig);
  const files = new Map<string, string>([["config.json", toJsonText(rawConfig)]]);
  let tokenizer: Tokenizer | null = null;
  if (tokenizerFiles) {
    const { json, config: tokenizerConfig, chatTemplate } = tokenizerFiles;
    tokenizer = await createTokenizerInTurns(json, tokenizerConfig, chatTemplate);
    if (tokenizer.size > config.vocabulary) {
      throw new HindsearchError(
        "INVALID_CHECKPOINT",
        `The tokenizer has ${tokenizer.size} ids, vocab_size is ${config.vocabulary}; it must be at least as large.`,
      );
    }
    config.tokenLimit = tokenizer.size;
    files.set("tokenizer.json", toJsonText(json));
    if (tokenizerConfig) files.set("tokenizer_config.json", toJsonText(tokenizerConfig));
    if (chatTemplate !== undefined) files.set("chat_template.jinja", chatTemplate);
  }
  const { initializer_range: range } = rawConfig;
  const deviation = options.standardDeviation ?? (typeof range === "number" ? range : 0.02);
  await requireLoading({ config, compute, device: opened.device }, memoryLimit);
  const native = await callNative(async () =>
    opened.addon.initialize(config, compute, toUint64(seed, "seed"), deviation),
  );
  return {
    native,
    ...opened,
    family,
    config,
    rawConfig,
    files,
    storage: new Map(),
    tokenizer,
    eosTokenIds: [...new Set([...eosTokenIds, ...(tokenizer?.eosTokenIds ?? [])])],
  };
}

/** See {@link Policy.save}. */
export async function saveParts(
  parts: PolicyParts,
  folder: string,
  { dtype, signal }: SaveOptions,
): Promise<void> {
  const { files, storage, rawConfig } = parts;
  const withConfig = new Map(files);
  if (dtype) withConfig.set("config.json", toJsonText(withStorage(rawConfig, dtype)));
  await saveModel(parts, folder, withConfig, (name) => dtype ?? storage.get(name) ?? "f32", signal);
}

function toJsonText(value: JsonObject): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

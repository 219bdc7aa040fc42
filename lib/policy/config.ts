import { HindsearchError } from "../errors.js";
import type { NativeModelConfig, StorageType } from "../native/model.js";
import { isJsonObject, type JsonObject } from "./json-file.js";

/** The decoder families that the engine implements, by their Hugging Face `model_type`. */
export type ModelFamily = "qwen2" | "qwen3" | "llama";

/** What a `config.json` says about a supported model. */
export interface ModelDescription {
  /** Which of the supported architectures it is. */
  family: ModelFamily;
  /** Sizes and switches for the engine; `tokenLimit` is the vocabulary until a tokenizer is known. */
  config: NativeModelConfig;
  /** Ids that end a text according to this file; may be empty. */
  eosTokenIds: number[];
  /** `dtype` (or `torch_dtype`): what the weights were saved as; `null` if it is not there. */
  storage: StorageType | null;
}

interface Family {
  architecture: string;
  /** Head size when the key is missing; `null`: hidden / heads. */
  headDim: number | null;
  qkvBias: boolean;
  qkNorm: boolean;
}

const FAMILIES: Readonly<Record<ModelFamily, Family>> = {
  qwen2: { architecture: "Qwen2ForCausalLM", headDim: null, qkvBias: true, qkNorm: false },
  qwen3: { architecture: "Qwen3ForCausalLM", headDim: 128, qkvBias: false, qkNorm: true },
  llama: { architecture: "LlamaForCausalLM", headDim: null, qkvBias: false, qkNorm: false },
};

const SUPPORTED = Object.entries(FAMILIES)
  .map(([type, { architecture }]) => `${type} (${architecture})`)
  .join(", ");

const STORAGE_TYPES: ReadonlyMap<string, StorageType> = new Map([
  ["float32", "f32"],
  ["float16", "f16"],
  ["bfloat16", "bf16"],
]);

function unsupported(what: string): HindsearchError {
  return new HindsearchError("UNSUPPORTED_MODEL", `config.json: ${what}.`);
}

function invalid(what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `config.json: ${what}.`);
}

/**
 * Reads a Hugging Face `config.json`, in the style of transformers 4 (`rope_theta`, `rope_scaling`, `torch_dtype`) or 5
 * (`rope_parameters`, `dtype`), into the engine's terms.
 *
 * Keys that change what the model computes are all looked at; anything the engine does not compute is refused by name.
 * Missing keys get the values that transformers gives them: `head_dim` 128 in Qwen3 and hidden / heads elsewhere,
 * `rms_norm_eps` 1e-6, untied embeddings, and for Llama as many key as query heads and `rope_theta` 10000. Qwen models
 * must name the last two, because their defaults differ between versions. A `sliding_window` beside
 * `use_sliding_window: false` is ignored, as transformers does. `pad_token_id` has no effect on the model.
 *
 * @param raw - The parsed file; untrusted.
 * @throws {@link HindsearchError} `UNSUPPORTED_MODEL` for what the engine does not implement, `INVALID_CHECKPOINT` for
 * a value that is missing, of the wrong type or out of range. The message names the key.
 */
export function parseModelConfig(raw: JsonObject): ModelDescription {
  const family = parseFamily(raw);
  refuseOtherArchitectures(raw, family);
  refuseSlidingWindow(raw);
  const hidden = integer(raw, "hidden_size", 1, 2 ** 18);
  const heads = integer(raw, "num_attention_heads", 1, 2 ** 12);
  const { headDim, qkvBias, qkNorm } = FAMILIES[family];
  const config: NativeModelConfig = {
    hidden,
    layers: integer(raw, "num_hidden_layers", 1, 2 ** 12),
    heads,
    kvHeads: integer(raw, "num_key_value_heads", 1, heads, family === "llama" ? heads : undefined),
    headDim: integer(raw, "head_dim", 2, 2 ** 12, headDim ?? hidden / heads),
    intermediate: integer(raw, "intermediate_size", 1, 2 ** 20),
    vocabulary: integer(raw, "vocab_size", 1, 2 ** 24),
    tokenLimit: 0,
    maxPositions: integer(raw, "max_position_embeddings", 1, 2 ** 28),
    rmsEpsilon: number(raw, "rms_norm_eps", 1e-6),
    ...parseRope(raw, family),
    tied: flag(raw, "tie_word_embeddings", false),
    qkvBias,
    qkNorm,
  };
  config.tokenLimit = config.vocabulary;
  if (config.heads % config.kvHeads !== 0) {
    throw invalid(`num_key_value_heads is ${config.kvHeads}; it must divide num_attention_heads, ${heads}`);
  }
  if (config.headDim % 2 !== 0) {
    throw invalid(`head_dim is ${config.headDim}; rotary embeddings turn pairs, so it must be even`);
  }
  return {
    family,
    config,
    eosTokenIds: parseTokenIds(raw.eos_token_id, "config.json: eos_token_id", config.vocabulary),
    storage: parseStorage(raw),
  };
}

/**
 * Reads a token id, a list of them or nothing, without repetition.
 *
 * @param value - The JSON value.
 * @param place - File and key, for messages.
 * @param limit - Ids must be below.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT`.
 * @internal
 */
export function parseTokenIds(value: unknown, place: string, limit: number): number[] {
  if (value === undefined || value === null) return [];
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  for (const id of ids) {
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) >= limit) {
      throw new HindsearchError(
        "INVALID_CHECKPOINT",
        `${place} is ${show(value)}; expected token ids from 0 to ${limit - 1}.`,
      );
    }
  }
  return [...new Set(ids as number[])];
}

/**
 * A copy of a `config.json` that says its weights are stored as `storage`, under the key that it used before.
 *
 * @internal
 */
export function withStorage(raw: JsonObject, storage: StorageType): JsonObject {
  const [name] = [...STORAGE_TYPES].find(([, type]) => type === storage) as [string, StorageType];
  const key = "dtype" in raw || "rope_parameters" in raw ? "dtype" : "torch_dtype";
  return { ...raw, [key]: name };
}

function parseFamily(raw: JsonObject): ModelFamily {
  const { model_type: type, architectures } = raw;
  if (typeof type !== "string" || !Object.hasOwn(FAMILIES, type)) {
    throw unsupported(`model_type is ${show(type)}; supported are ${SUPPORTED}`);
  }
  const family = type as ModelFamily;
  const { architecture } = FAMILIES[family];
  if (!Array.isArray(architectures) || architectures.length !== 1 || architectures[0] !== architecture) {
    throw unsupported(
      `architectures is ${show(architectures)}; with model_type ${type} it must be ["${architecture}"]`,
    );
  }
  return family;
}

function refuseOtherArchitectures(raw: JsonObject, family: ModelFamily): void {
  for (const key of ["quantization_config", "compression_config"]) {
    if (isGiven(raw[key]))
      throw unsupported(`${key} is set; weights must be F32, F16 or BF16, not quantised`);
  }
  for (const key of ["num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"]) {
    if (isGiven(raw[key])) throw unsupported(`${key} is set; mixtures of experts are not supported`);
  }
  const expected: [key: string, value: unknown][] = [
    ["hidden_act", "silu"],
    ["attention_dropout", 0],
    ["pretraining_tp", 1],
    ["partial_rotary_factor", 1],
    ["mlp_bias", false],
  ];
  // Qwen2 has biases on q, k and v whatever this key says.
  if (family !== "qwen2") expected.push(["attention_bias", false]);
  for (const [key, value] of expected) {
    if (isGiven(raw[key]) && raw[key] !== value) {
      throw unsupported(`${key} is ${show(raw[key])}; supported is ${show(value)}`);
    }
  }
}

function refuseSlidingWindow(raw: JsonObject): void {
  const layerTypes = raw.layer_types;
  if (isGiven(layerTypes)) {
    const other = Array.isArray(layerTypes)
      ? layerTypes.find((type) => type !== "full_attention")
      : layerTypes;
    if (other !== undefined) {
      throw unsupported(`layer_types holds ${show(other)}; supported is "full_attention" alone`);
    }
  }
  if (!flag(raw, "use_sliding_window", false) || !isGiven(raw.sliding_window)) return;
  const window = integer(raw, "sliding_window", 1, Number.MAX_SAFE_INTEGER);
  const positions = integer(raw, "max_position_embeddings", 1, Number.MAX_SAFE_INTEGER);
  const layers = integer(raw, "num_hidden_layers", 1, Number.MAX_SAFE_INTEGER);
  const fullLayers = integer(raw, "max_window_layers", 0, Number.MAX_SAFE_INTEGER, 28);
  if (window < positions && layers > fullLayers) {
    throw unsupported(
      `sliding_window ${window} is in use (use_sliding_window is true, ${positions} positions, layers from ` +
        `${fullLayers} on); only full attention is supported`,
    );
  }
}

function parseRope(
  raw: JsonObject,
  family: ModelFamily,
): Pick<NativeModelConfig, "ropeTheta" | "ropeScaling"> {
  const key = isGiven(raw.rope_parameters) ? "rope_parameters" : "rope_scaling";
  const rope = raw[key] ?? {};
  if (!isJsonObject(rope)) throw invalid(`${key} must be an object`);
  if (isGiven(rope.partial_rotary_factor) && rope.partial_rotary_factor !== 1) {
    throw unsupported(`${key}.partial_rotary_factor is ${show(rope.partial_rotary_factor)}; supported is 1`);
  }
  const theta = rope.rope_theta === undefined ? raw : rope;
  const ropeTheta = number(theta, "rope_theta", family === "llama" ? 10_000 : undefined);
  const type = rope.rope_type ?? rope.type ?? "default";
  if (type === "default") {
    const nested = Object.values(rope).find(isJsonObject);
    if (nested) throw unsupported(`${key} differs between layers; one rotary embedding for all is supported`);
    return { ropeTheta, ropeScaling: null };
  }
  if (type !== "llama3") {
    throw unsupported(`${key}.rope_type is ${show(type)}; supported are "default" and "llama3"`);
  }
  const ropeScaling = {
    factor: number(rope, "factor"),
    lowFrequencyFactor: number(rope, "low_freq_factor"),
    highFrequencyFactor: number(rope, "high_freq_factor"),
    originalPositions: integer(rope, "original_max_position_embeddings", 1, 2 ** 28),
  };
  if (ropeScaling.factor < 1) throw invalid(`${key}.factor is ${ropeScaling.factor}; expected 1 or more`);
  if (ropeScaling.lowFrequencyFactor >= ropeScaling.highFrequencyFactor) {
    throw invalid(`${key}.low_freq_factor must be below high_freq_factor`);
  }
  return { ropeTheta, ropeScaling };
}

function parseStorage(raw: JsonObject): StorageType | null {
  const key = isGiven(raw.dtype) ? "dtype" : "torch_dtype";
  const value = raw[key];
  if (!isGiven(value)) return null;
  const type = STORAGE_TYPES.get(String(value).replace(/^torch\./, ""));
  if (type === undefined) {
    const names = [...STORAGE_TYPES.keys()].join(", ");
    throw unsupported(`${key} is ${show(value)}; supported are ${names}`);
  }
  return type;
}

/** A foreign value for a message, cut to a length that fits one. */
function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function integer(raw: JsonObject, key: string, least: number, most: number, missing?: number): number {
  const value = isGiven(raw[key]) ? raw[key] : missing;
  if (value === undefined) throw invalid(`${key} is missing; expected an integer`);
  if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) {
    throw invalid(`${key} is ${show(value)}; expected an integer from ${least} to ${most}`);
  }
  return value as number;
}

function number(raw: JsonObject, key: string, missing?: number): number {
  const value = isGiven(raw[key]) ? raw[key] : missing;
  if (value === undefined) throw invalid(`${key} is missing; expected a number above 0`);
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
    throw invalid(`${key} is ${show(value)}; expected a number above 0`);
  }
  return value;
}

function flag(raw: JsonObject, key: string, missing: boolean): boolean {
  const value = raw[key] ?? missing;
  if (typeof value !== "boolean") throw invalid(`${key} is ${show(value)}; expected true or false`);
  return value;
}

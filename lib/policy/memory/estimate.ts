import { availableParallelism } from "node:os";
import { HindsearchError } from "../../errors.js";
import type { DeviceName } from "../../native/addon.js";
import { loadAddon } from "../../native/load.js";
import type { ComputeType } from "../../native/model.js";
import { chooseCompute } from "../compute.js";
import { parseModelConfig } from "../config.js";
import type { JsonObject } from "../json-file.js";
import { MICRO_BATCH_TOKENS } from "../passes.js";
import type { DecoderOptions } from "../policy-options.js";
import { cpuDecoding, cpuLoading, cpuPhases } from "./cpu.js";
import { cudaDecoding, cudaLoading, cudaPhases } from "./cuda.js";
import { decoderSizes } from "./decoder-sizes.js";
import type {
  MemoryEstimate,
  MemoryEstimateOptions,
  MemoryPart,
  MemoryPhase,
  PhaseEstimate,
  SizedModel,
} from "./report.js";
import { type EngineModel, parameterCount } from "./sizes.js";

/**
 * Memory that a run will need, by part and by phase, before anything is allocated. What it counts is the engine, the
 * trajectories and a plain Node process, on a GPU also what CUDA takes; corpora, other models and what the program itself holds come on top.
 *
 * A config needs no engine, unless `compute` is `"auto"` and there is one.
 *
 * @param model - A policy, or the `config.json` of a model of a supported family.
 * @throws {@link HindsearchError} `UNSUPPORTED_MODEL` or `INVALID_CHECKPOINT` for a config, `INVALID_ARGUMENT` for
 * counts that are none, `DISPOSED`.
 *
 * @example
 * ```ts
 * const config = JSON.parse(await readFile("Qwen2.5-0.5B-Instruct/config.json", "utf8"));
 * console.log(formatEstimate(estimateMemory(config, { compute: "bf16", sequences: 2560 })));
 * ```
 */
export function estimateMemory(
  model: JsonObject | SizedModel,
  options: MemoryEstimateOptions = {},
): MemoryEstimate {
  const { config, settings } = resolve(model, options);
  const { compute, device } = settings;
  const phases = (device === "cpu" ? cpuPhases : cudaPhases)({ config, compute, device }, settings);
  const parts: MemoryEstimate["parts"] = {};
  let peak: MemoryEstimate["peak"] = { phase: "load", bytes: 0 };
  for (const [name, phase] of Object.entries(phases)) {
    if (phase.bytes > peak.bytes) peak = { phase: name as MemoryPhase, bytes: phase.bytes };
    for (const [part, bytes] of Object.entries(phase.parts) as [MemoryPart, number][]) {
      parts[part] = Math.max(bytes, parts[part] ?? 0);
    }
  }
  return { parameters: parameterCount(config), settings, phases, parts, peak };
}

/** What loading or initializing a model needs. @internal */
export function loadingNeed(model: EngineModel): PhaseEstimate {
  return model.device === "cpu" ? cpuLoading(model) : cudaLoading(model);
}

/** What a decoder needs. @internal */
export function decodingNeed(model: EngineModel, sizes: Required<DecoderOptions>): PhaseEstimate {
  return model.device === "cpu" ? cpuDecoding(model, sizes) : cudaDecoding(model, sizes);
}

function resolve(model: JsonObject | SizedModel, options: MemoryEstimateOptions) {
  const known = isSized(model);
  const described = known ? model.config : parseModelConfig(model).config;
  const config = { ...described, tokenLimit: options.tokenLimit ?? described.tokenLimit };
  const { training = true, checkpointActivations = true, microBatchTokens = MICRO_BATCH_TOKENS } = options;
  const { frozenCopy = training } = options;
  const longestSequence = options.longestSequence ?? Math.min(microBatchTokens, config.maxPositions);
  const { longestScored = longestSequence } = options;
  const { sequences = Math.ceil(microBatchTokens / longestSequence) } = options;
  const threads = options.threads ?? (known ? loadAddon().threads() : availableParallelism());
  const { device = known ? model.device : "cpu" } = options;
  const wanted = options.compute ?? (known ? model.compute : "auto");
  const compute = wanted === "auto" ? automaticCompute(device) : wanted;
  const decoder =
    options.decoder === false ? null : decoderSizes({ config, compute, device }, options.decoder ?? {});
  const { tokenLimit } = config;
  const counts = { microBatchTokens, longestSequence, longestScored, sequences, threads, tokenLimit };
  for (const [name, value] of Object.entries({ ...counts, ...decoder })) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new HindsearchError("INVALID_ARGUMENT", `${name} is ${value}, expected an integer of at least 1.`);
  }
  const settings = { device, compute, training, frozenCopy, checkpointActivations, decoder, ...counts };
  return { config, settings };
}

function isSized(model: JsonObject | SizedModel): model is SizedModel {
  return "compute" in model && "config" in model;
}

function automaticCompute(device: DeviceName): ComputeType {
  if (device === "cuda") return "bf16";
  try {
    return chooseCompute("auto", { device: "cpu", addon: loadAddon() });
  } catch (error) {
    const code = error instanceof HindsearchError ? error.code : undefined;
    if (code === "ADDON_NOT_FOUND" || code === "ADDON_LOAD_FAILED") return "f32";
    throw error;
  }
}

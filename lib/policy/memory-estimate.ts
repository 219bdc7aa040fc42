import { availableParallelism } from "node:os";
import { HindsearchError } from "../errors.js";
import { loadAddon } from "../native/load.js";
import type { ComputeType } from "../native/model.js";
import { chooseCompute } from "./compute.js";
import { parseModelConfig } from "./config.js";
import { decoderSizes } from "./decoder-sizes.js";
import type { JsonObject } from "./json-file.js";
import {
  arenaBytes,
  cacheBytes,
  decoderBytes,
  decodeWorkspaceBytes,
  type EngineModel,
  headScratchBytes,
  headSlab,
  MOST_KEPT,
  packedBytes,
  parameterCount,
  rotaryBytes,
  STAGING,
  scoringSlabs,
  threadScratchBytes,
  trainingSlabs,
} from "./memory-sizes.js";
import type {
  MemoryEstimate,
  MemoryEstimateOptions,
  MemoryPart,
  MemoryPhase,
  MemorySettings,
  PhaseEstimate,
  SizedModel,
} from "./memory-types.js";
import { MICRO_BATCH_TOKENS } from "./passes.js";
import type { DecoderOptions } from "./policy-options.js";

/** Resident memory of a process that imported this package and trained a model of no size. */
const RUNTIME = 130 * 2 ** 20;

/** Per token of a trajectory: id and three log-probs in JavaScript, id and log-prob in the decoder. */
const TRAJECTORY_TOKEN = 6 * Float32Array.BYTES_PER_ELEMENT;

/**
 * Memory that a run will need, by part and by phase, before anything is allocated. What it counts is the engine, the
 * trajectories and a plain Node process; corpora, other models and what the program itself holds come on top.
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
  const engineModel = { config, compute: settings.compute };
  const phases = phasesOf(engineModel, settings);
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
export function loadingParts(model: EngineModel) {
  return { weights: arenaBytes(model.config), packedWeights: packedBytes(model), staging: STAGING };
}

/** What a decoder needs. @internal */
export function decodingParts(
  { config }: EngineModel,
  { cacheTokens, maxBatch, prefillTokens }: Required<DecoderOptions>,
): PhaseEstimate["parts"] {
  const rows = Math.min(maxBatch + prefillTokens, cacheTokens);
  return {
    cache: cacheBytes(config, cacheTokens),
    decoder: decoderBytes(config, maxBatch) + decodeWorkspaceBytes(config, rows),
  };
}

function phasesOf(model: EngineModel, settings: MemorySettings): MemoryEstimate["phases"] {
  const { config } = model;
  const { training, frozenCopy, decoder, longestSequence, longestScored, sequences, threads } = settings;
  const { staging, ...weights } = loadingParts(model);
  const load = phase({ ...weights, staging, runtime: RUNTIME });

  // Of a run that has gone through all of its phases once.
  const scored = passRows(settings, longestScored);
  const trained = passRows(settings, longestSequence);
  const rotary = (longest: number) => rotaryBytes(config, longest);
  const standing: PhaseEstimate["parts"] = {
    ...weights,
    ...(frozenCopy && { frozenCopy: weights.weights + weights.packedWeights }),
    ...(training && { gradients: arenaBytes(config), moments: 2 * arenaBytes(config) }),
    rotaryTables: rotary(longestSequence) + (frozenCopy ? rotary(longestScored) : 0),
    scratch: Math.max(
      threadScratchBytes(model, trained, threads, training),
      frozenCopy ? threadScratchBytes(model, scored, threads, false) : 0,
    ),
    ...(decoder && decodingParts(model, decoder)),
    ...(training && decoder && { trajectories: sequences * longestSequence * TRAJECTORY_TOKEN }),
    runtime: RUNTIME,
  };
  const scoring = frozenCopy ? scoringSlabs(config, scored) : [];
  const update = training ? trainingSlabs(config, trained, settings.checkpointActivations) : [];
  const blocks = sharedBlocks(scoring, update);
  const head = (rows: number, backward: boolean) =>
    headSlab(config, rows, backward) + headScratchBytes(model, rows, threads, backward);
  return {
    load,
    ...(decoder && { rollout: phase({ ...standing, kept: keptBeside([], blocks) }) }),
    ...(frozenCopy && {
      scoring: phase({
        ...standing,
        activations: sum(scoring),
        head: head(scored.rows, false),
        kept: keptBeside(scoring, blocks),
      }),
    }),
    ...(training && {
      update: phase({
        ...standing,
        activations: sum(update),
        head: head(trained.rows, true),
        kept: keptBeside(update, blocks),
      }),
    }),
  };
}

/** Sequences are never cut: a longer one goes alone. */
function passRows({ microBatchTokens, sequences }: MemorySettings, longest: number) {
  // The last token of a sequence predicts nothing and is not run; micro-batches are filled all the same.
  const rows = Math.min(Math.max(microBatchTokens, longest), sequences * longest);
  return { rows, longest };
}

/** What lies unused while a pass has its buffers. */
function keptBeside(own: readonly number[], blocks: readonly number[]): number {
  return Math.max(0, Math.min(MOST_KEPT, sum(blocks) - sum(own)));
}

/** The blocks that two passes leave between them: one takes those of the other up to twice its size. */
function sharedBlocks(first: readonly number[], second: readonly number[]): number[] {
  const free = [...second];
  const alone = first.filter((size) => {
    const found = free.findIndex((other) => other <= 2 * size && size <= 2 * other);
    if (found >= 0) free.splice(found, 1);
    return found < 0;
  });
  return [...second, ...alone].filter((size) => size <= MOST_KEPT);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function phase(parts: PhaseEstimate["parts"]): PhaseEstimate {
  return { bytes: sum(Object.values(parts)), parts };
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
  const decoder = options.decoder === false ? null : decoderSizes(config, options.decoder ?? {});
  const { tokenLimit } = config;
  const counts = {
    microBatchTokens,
    longestSequence,
    longestScored,
    sequences,
    threads,
    tokenLimit,
    ...decoder,
  };
  for (const [name, value] of Object.entries(counts)) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new HindsearchError("INVALID_ARGUMENT", `${name} is ${value}, expected an integer of at least 1.`);
  }
  const compute = options.compute ?? (known ? model.compute : "auto");
  const settings: MemorySettings = {
    compute: compute === "auto" ? computeOfThisMachine() : compute,
    training,
    frozenCopy,
    checkpointActivations,
    decoder,
    microBatchTokens,
    longestSequence,
    longestScored,
    sequences,
    threads,
    tokenLimit,
  };
  return { config, settings };
}

function isSized(model: JsonObject | SizedModel): model is SizedModel {
  return "compute" in model && "config" in model;
}

function computeOfThisMachine(): ComputeType {
  try {
    return chooseCompute("auto", { device: "cpu", addon: loadAddon() });
  } catch (error) {
    const code = error instanceof HindsearchError ? error.code : undefined;
    if (code === "ADDON_NOT_FOUND" || code === "ADDON_LOAD_FAILED") return "f32";
    throw error;
  }
}

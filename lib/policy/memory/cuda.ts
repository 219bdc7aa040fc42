/**
 * What the CUDA engine allocates: `native/backend/cuda`, and the same buffers of passes as on the CPU. Nobody has compared
 * these numbers with a GPU yet.
 */

import { modelTensors } from "../model-tensors.js";
import type { DecoderOptions } from "../policy-options.js";
import type { MemoryEstimate, MemorySettings, PhaseEstimate } from "./report.js";
import {
  arenaBytes,
  cacheBytes,
  cacheNumberBytes,
  decoderBytes,
  decodeWorkspaceBytes,
  type EngineModel,
  FLOAT,
  HEAD_ROWS,
  headSlab,
  NODE_RUNTIME,
  type PassRows,
  passRows,
  phase,
  rotaryBytes,
  STAGING,
  scoringSlabs,
  sum,
  TRAJECTORY_TOKEN,
  trainingSlabs,
  up,
  widths,
} from "./sizes.js";

/** Guesses: the context with its kernels and cuBLAS on the GPU, and what they map into the process. */
const CUDA_RUNTIME = 512 * 2 ** 20;
const CUDA_HOST_RUNTIME = 256 * 2 ** 20;
const HALF = 2;
/** Pinned memory between host and device: `staging.h`. */
const PINNED = 5 * 2 ** 21;
/** `cublas.cc`. */
const CUBLAS_WORKSPACE = 2 ** 25;
/** Logits that the head holds at a time: `head.cu`. */
const MOST_LOGIT_BYTES = 2 ** 29;
const [MOST_LOGIT_ROWS, LEAST_LOGIT_ROWS, TILE_ROWS] = [4096, 64, 128];

/** What loading or initializing a model needs. */
export function cudaLoading(model: EngineModel): PhaseEstimate {
  return phase(weightParts(model), { staging: STAGING + PINNED });
}

function weightParts({ config, compute }: EngineModel) {
  const packedWeights = compute === "bf16" ? HALF * matrixNumbers(config) : 0;
  return { weights: arenaBytes(config), packedWeights };
}

/** Numbers of the matrices that products read, the head among them even where it is the embedding. */
function matrixNumbers(config: EngineModel["config"]): number {
  const { hidden, layers, intermediate, tokenLimit } = config;
  const { query, qkv } = widths(config);
  return layers * hidden * (qkv + query + 3 * intermediate) + tokenLimit * hidden;
}

/** In bf16 what the forward reads: packed matrices, and in float32 embedding, norms and biases. */
function frozenBytes(model: EngineModel): number {
  const { weights, packedWeights } = weightParts(model);
  if (model.compute === "f32") return weights;
  const unpacked = modelTensors(model.config)
    .filter(({ name, shape }) => shape.length === 1 || /^(model\.embed_tokens|lm_head)\./.test(name))
    .map(({ shape }) => shape.reduce((size, axis) => size * axis, 1));
  return packedWeights + FLOAT * sum(unpacked);
}

/** What a decoder needs. */
export function cudaDecoding(
  model: EngineModel,
  { cacheTokens, maxBatch, prefillTokens }: Required<DecoderOptions>,
): PhaseEstimate {
  const { config } = model;
  const rows = Math.max(paddedRows(maxBatch), Math.min(maxBatch + prefillTokens, cacheTokens));
  const { pages, bookkeeping } = cacheBytes(config, cacheTokens, cacheNumberBytes(model));
  const { logits, texts } = decoderBytes(config, paddedRows(maxBatch));
  return phase(
    { cache: pages, decoder: logits + decodeWorkspaceBytes(model, rows) },
    { cache: bookkeeping, decoder: texts },
  );
}

/** Recorded passes have sizes in steps: `padded_rows` in `pass_index.h`. */
function paddedRows(sequences: number): number {
  if (sequences <= 2) return sequences;
  const steps = [4, 64, 128, 256].findIndex((most) => sequences <= most);
  return up(sequences, [4, 8, 16, 32][steps] ?? 64);
}

/** The phases of a run. */
export function cudaPhases(model: EngineModel, settings: MemorySettings): MemoryEstimate["phases"] {
  const { config } = model;
  const { training, frozenCopy, decoder, longestSequence, longestScored, sequences } = settings;
  const weights = weightParts(model);
  const scored = passRows(settings, longestScored);
  const trained = passRows(settings, longestSequence);
  const decoding = decoder && cudaDecoding(model, decoder);
  const standing: PhaseEstimate["parts"] = {
    ...weights,
    ...(frozenCopy && { frozenCopy: frozenBytes(model) }),
    ...(training && { gradients: arenaBytes(config), moments: 2 * arenaBytes(config) }),
    rotaryTables:
      rotaryBytes(config, longestSequence) + (frozenCopy ? rotaryBytes(config, longestScored) : 0),
    scratch:
      CUBLAS_WORKSPACE +
      Math.max(operandBytes(model, trained.rows, training), operandBytes(model, scored.rows, false)),
    ...decoding?.parts,
    runtime: CUDA_RUNTIME,
  };
  const host: PhaseEstimate["parts"] = {
    ...decoding?.host?.parts,
    ...(training && decoder && { trajectories: sequences * longestSequence * TRAJECTORY_TOKEN }),
    staging: PINNED,
    runtime: NODE_RUNTIME + CUDA_HOST_RUNTIME,
  };
  // What the pool keeps of passes that are over it gives back before anything fails for want of memory.
  const of = (pool: PhaseEstimate["parts"]) => phase({ ...standing, ...pool }, host);
  return {
    load: phase(
      { ...weights, runtime: CUDA_RUNTIME },
      { staging: STAGING + PINNED, runtime: host.runtime ?? 0 },
    ),
    ...(decoder && { rollout: of({}) }),
    ...(frozenCopy && { scoring: of(scoringPool(model, scored)) }),
    ...(training && { update: of(updatePool(model, trained, settings.checkpointActivations)) }),
  };
}

function scoringPool(model: EngineModel, pass: PassRows): PhaseEstimate["parts"] {
  return { activations: sum(scoringSlabs(model, pass)), head: headBytes(model, pass.rows, false) };
}

function updatePool(model: EngineModel, pass: PassRows, checkpoint: boolean): PhaseEstimate["parts"] {
  const { heads, headDim } = model.config;
  // Of attention's backward: two sums of each row and head, in bf16 also queries and gradients.
  const rounded = model.compute === "bf16" ? 2 * HALF * up(headDim, 8) : 0;
  const attention = pass.rows * heads * (2 * FLOAT + rounded);
  return {
    activations: sum(trainingSlabs(model.config, pass, checkpoint)) + attention,
    head: headBytes(model, pass.rows, true),
  };
}

function headBytes({ config }: EngineModel, rows: number, backward: boolean): number {
  const n = Math.min(rows, HEAD_ROWS);
  const stride = up(config.tokenLimit, 4);
  const fitting = Math.min(MOST_LOGIT_ROWS, Math.floor(MOST_LOGIT_BYTES / (stride * FLOAT)));
  const tiled = fitting < TILE_ROWS ? fitting : fitting - (fitting % TILE_ROWS);
  const chunk = Math.min(n, Math.max(LEAST_LOGIT_ROWS, tiled));
  return headSlab(config, rows, backward) + chunk * stride * FLOAT + n * Int32Array.BYTES_PER_ELEMENT;
}

/** Operands that were written as floats in bf16, which stay where the largest found room: `linear.cc`. */
function operandBytes({ config, compute }: EngineModel, rows: number, backward: boolean): number {
  if (compute === "f32") return 0;
  const { hidden, intermediate } = config;
  const { query, qkv } = widths(config);
  if (!backward) return HALF * rows * query;
  return HALF * rows * (Math.max(hidden, query, qkv, 2 * intermediate) + Math.max(query, intermediate));
}

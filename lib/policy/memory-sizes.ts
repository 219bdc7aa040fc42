/**
 * Sizes of the engine's buffers in bytes: what `native` allocates, written down once more so that it can be known where
 * there is no engine yet. Tests compare every number here with what the engine reports.
 */
import type { ComputeType, NativeModelConfig } from "../native/model.js";
import { modelTensors } from "./model-tensors.js";

/** Tokens of a cache page: `kPageTokens` in `native/backend/backend.h`. */
export const PAGE_TOKENS = 16;
/** Most that the engine keeps of buffers that are free: `BlockCache` in `native/backend/cpu/memory.h`. */
export const MOST_KEPT = 2 ** 30;
/** Numbers and file bytes on their way into the weights: `native/model/weights.cc` and `tensor_file.cc`. */
export const STAGING = 2 * 2 ** 22;

const FLOAT = Float32Array.BYTES_PER_ELEMENT;
/** Floats of a cache line, on which the tensors of a pass start: `native/model/slab.h`. */
const LINE = 16;
/** Columns of the widest vector, to which packed matrices are padded; narrower ones pad less. */
const VECTOR = 16;
/** Bookkeeping of a cache page: `PagePool` in `native/rollout/page_pool.h`. */
const PAGE_INFO = 16 + Int32Array.BYTES_PER_ELEMENT;
/** Positions of the smallest rotary table: `native/model/rope.cc`. */
const LEAST_POSITIONS = 1024;
/** Rows that the head takes at a time: `native/model/head.cc`. */
const HEAD_ROWS = 960;
/** Of the fused softmax: `native/backend/cpu/head.cc` and `softmax.h`. */
const HEAD_TILE_ROWS = 96;
const VOCABULARY_CHUNK = 768;
const CHUNK_STATISTICS = 3 * FLOAT;
/** Of matrix products: `native/backend/cpu/gemm.cc` and `linear.cc`. */
const ROW_BLOCK = 240;
const SHARED_LEFT = 2 ** 21;
const MOST_PACKED_OPERAND = 2 ** 25;
/** Of attention: `native/backend/cpu/attention.cc` and `attention_backward.cc`. */
const ATTENTION_ROWS = 8;
const KEY_BLOCK = 48;
const ATTENTION_TILE = 32 * KEY_BLOCK;

const OPERANDS: Readonly<
  Record<ComputeType, { bytes: number; leftBytes: number; unit: number; kBlock: number }>
> = {
  f32: { bytes: 4, leftBytes: 0, unit: 1, kBlock: 512 },
  bf16: { bytes: 2, leftBytes: 2, unit: 2, kBlock: 1024 },
};

/** What a size depends on. */
export interface EngineModel {
  config: Readonly<NativeModelConfig>;
  compute: ComputeType;
}

const up = (value: number, to: number) => Math.ceil(value / to) * to;
const slab = (...floats: number[]) => FLOAT * floats.reduce((sum, count) => sum + up(count, LINE), 0);

function widths({ heads, kvHeads, headDim }: NativeModelConfig) {
  const query = heads * headDim;
  const key = kvHeads * headDim;
  return { query, key, qkv: query + 2 * key };
}

/** Parameters of a model. */
export function parameterCount(config: NativeModelConfig): number {
  return modelTensors(config).reduce(
    (sum, { shape }) => sum + shape.reduce((size, axis) => size * axis, 1),
    0,
  );
}

/** One number per parameter: master weights, gradients, or one of the two moments. */
export function arenaBytes(config: NativeModelConfig): number {
  return FLOAT * parameterCount(config);
}

/** A right operand [k, columns] of a matrix product in the form that the kernels read. */
function packedOperand(compute: ComputeType, k: number, columns: number): number {
  const { bytes, unit } = OPERANDS[compute];
  return up(columns, VECTOR) * up(k, unit) * bytes;
}

/** All weight matrices in the form that the kernels read. */
export function packedBytes({ config, compute }: EngineModel): number {
  const { hidden, layers, intermediate, tokenLimit } = config;
  const { query, qkv } = widths(config);
  const layer =
    packedOperand(compute, hidden, qkv) +
    packedOperand(compute, query, hidden) +
    packedOperand(compute, hidden, 2 * intermediate) +
    packedOperand(compute, intermediate, hidden);
  return layers * layer + packedOperand(compute, hidden, tokenLimit);
}

/** Cosines and sines for sequences of up to so many tokens, the first table that is made. */
export function rotaryBytes({ headDim, maxPositions }: NativeModelConfig, positions: number): number {
  const rows = Math.max(positions, Math.min(LEAST_POSITIONS, maxPositions));
  return 2 * FLOAT * (headDim / 2) * rows;
}

/** Pages of a cache for so many tokens. */
export function cacheBytes({ layers, kvHeads, headDim }: NativeModelConfig, tokens: number): number {
  const page = 2 * layers * kvHeads * headDim * PAGE_TOKENS * FLOAT;
  return Math.ceil(tokens / PAGE_TOKENS) * (page + PAGE_INFO);
}

/** Logits of every sequence in the batch, and where the text of every token lies. */
export function decoderBytes({ tokenLimit }: NativeModelConfig, maxBatch: number): number {
  return FLOAT * maxBatch * tokenLimit + Uint32Array.BYTES_PER_ELEMENT * (tokenLimit + 1);
}

function tapeBytes(config: NativeModelConfig, rows: number, backward: boolean): number {
  const { heads, kvHeads, hidden, intermediate, qkNorm } = config;
  const { query, key, qkv } = widths(config);
  const kept = [rows, 2 * rows * heads, rows * hidden, rows];
  const normed = [rows * (query + key), rows * heads, rows * kvHeads];
  return slab(
    rows * qkv,
    rows * query,
    2 * rows * intermediate,
    ...(backward ? kept : []),
    ...(backward && qkNorm ? normed : []),
  );
}

function layerScratchBytes(config: NativeModelConfig, rows: number, backward: boolean): number {
  const { hidden, intermediate, qkNorm } = config;
  const { query, key, qkv } = widths(config);
  return slab(
    rows * hidden,
    rows * intermediate,
    ...(backward ? [rows * qkv, rows * query] : []),
    ...(backward && qkNorm ? [rows * (query + key)] : []),
  );
}

/** The rows that one pass runs together. */
export interface PassRows {
  rows: number;
  /** Of the longest sequence among them. */
  longest: number;
}

/** Keys and values of one layer, which all layers use in turn. */
function passPages({ kvHeads, headDim }: NativeModelConfig, { rows, longest }: PassRows): number {
  const pages = Math.ceil(rows / longest) * Math.ceil(longest / PAGE_TOKENS);
  return pages * 2 * kvHeads * headDim * PAGE_TOKENS;
}

/** Buffers of a decoder's passes, which it keeps: `DecodeWorkspace` in `native/model/state.h`. */
export function decodeWorkspaceBytes(config: NativeModelConfig, rows: number): number {
  const { hidden } = config;
  return (
    tapeBytes(config, rows, false) +
    layerScratchBytes(config, rows, false) +
    slab(rows * hidden, rows * hidden)
  );
}

/** Buffers of a pass that scores, one entry each. */
export function scoringSlabs(config: NativeModelConfig, pass: PassRows): number[] {
  const { rows } = pass;
  return [
    slab(rows * config.hidden, passPages(config, pass)),
    tapeBytes(config, rows, false),
    layerScratchBytes(config, rows, false),
  ];
}

/** Buffers of a pass that trains, one entry each. */
export function trainingSlabs(config: NativeModelConfig, pass: PassRows, checkpoint: boolean): number[] {
  const { rows } = pass;
  const { hidden, layers } = config;
  const residuals = Array.from({ length: layers + 2 }, () => rows * hidden);
  return [
    slab(...residuals, passPages(config, pass)),
    ...Array.from({ length: checkpoint ? 1 : layers }, () => tapeBytes(config, rows, true)),
    layerScratchBytes(config, rows, true),
  ];
}

/** Buffers of final norm and head over the rows of a pass; those of entropies, one float a row, aside. */
export function headSlab({ hidden }: NativeModelConfig, rows: number, backward: boolean): number {
  const n = Math.min(rows, HEAD_ROWS);
  const [states, columns] = backward ? [4, 3] : [1, 2];
  return slab(
    ...Array.from({ length: states }, () => n * hidden),
    ...Array.from({ length: columns }, () => n),
  );
}

/** Logits and what belongs to them while the head works through its rows. */
export function headScratchBytes(
  model: EngineModel,
  rows: number,
  threads: number,
  backward: boolean,
): number {
  const { hidden, tokenLimit } = model.config;
  const n = Math.min(rows, HEAD_ROWS);
  const chunk = Math.min(tokenLimit, VOCABULARY_CHUNK);
  const statistics = n * Math.ceil(tokenLimit / VOCABULARY_CHUNK) * CHUNK_STATISTICS;
  const tiles = threads * Math.min(n, HEAD_TILE_ROWS) * chunk * FLOAT;
  if (!backward) return statistics + tiles;
  const columns = Math.min(tokenLimit, 2 * VOCABULARY_CHUNK);
  return statistics + tiles + n * columns * FLOAT + packedOperand(model.compute, n, hidden);
}

/** Operands and tiles that the threads keep from one operation to the next, the head's aside. */
export function threadScratchBytes(
  model: EngineModel,
  pass: PassRows,
  threads: number,
  backward: boolean,
): number {
  return (
    operandScratchBytes(model, pass, threads, backward) +
    threads * attentionScratchBytes(model.config, pass.longest, backward)
  );
}

function operandScratchBytes(
  { config, compute }: EngineModel,
  { rows }: PassRows,
  threads: number,
  backward: boolean,
): number {
  const { hidden, intermediate, tokenLimit } = config;
  const { query, qkv } = widths(config);
  const { leftBytes, kBlock, bytes } = OPERANDS[compute];
  const inner = [hidden, query, intermediate, ...(backward ? [qkv, 2 * intermediate, rows] : [])];
  const shared = inner.map((k) =>
    Math.min(Math.max(SHARED_LEFT, ROW_BLOCK * k * leftBytes), rows * k * leftBytes),
  );
  const left = threads * ROW_BLOCK * Math.min(kBlock, Math.max(...inner)) * leftBytes;
  if (!backward) return left + Math.max(...shared);
  const right = [
    [qkv, hidden],
    [hidden, query],
    [2 * intermediate, hidden],
    [hidden, intermediate],
  ].flatMap(([outputs = 0, inputs = 0]) => [
    Math.min(MOST_PACKED_OPERAND, packedOperand(compute, outputs, inputs)),
    Math.max(
      Math.min(MOST_PACKED_OPERAND, packedOperand(compute, rows, inputs)),
      Math.min(rows, kBlock) * inputs * bytes,
    ),
  ]);
  const head = packedOperand(compute, Math.min(tokenLimit, 2 * VOCABULARY_CHUNK), hidden);
  return left + Math.max(...shared) + Math.max(...right, head);
}

function attentionScratchBytes({ headDim }: NativeModelConfig, longest: number, backward: boolean): number {
  const forward = ATTENTION_ROWS * (headDim + longest + 2 * PAGE_TOKENS);
  if (!backward) return FLOAT * forward;
  const tokens = up(longest, KEY_BLOCK);
  const gradient = tokens * (6 * up(headDim, PAGE_TOKENS) + 2 * headDim + 1) + 2 * ATTENTION_TILE;
  return FLOAT * Math.max(forward, gradient);
}

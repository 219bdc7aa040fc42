/**
 * Sizes of the engine's buffers in bytes: what `native` allocates, written down once more so that it can be known where
 * there is no engine yet. Tests compare every number here with what the engine reports.
 */
import type { DeviceName } from "../../native/addon.js";
import type { ComputeType, NativeModelConfig } from "../../native/model.js";
import { modelTensors } from "../model-tensors.js";
import type { MemorySettings, PhaseEstimate } from "./report.js";

/** Tokens of a cache page: `kPageTokens` in `native/backend/backend.h`. */
export const PAGE_TOKENS = 16;
/** Numbers and file bytes on their way into the weights: `native/model/weights.cc` and `tensor_file.cc`. */
export const STAGING = 2 * 2 ** 22;

/** Resident memory of a process that imported this package and trained a model of no size. */
export const NODE_RUNTIME = 130 * 2 ** 20;

/** Per token of a trajectory: id and three log-probs in JavaScript, id and log-prob in the decoder. */
export const TRAJECTORY_TOKEN = 6 * Float32Array.BYTES_PER_ELEMENT;

/** Bytes of a float32. */
export const FLOAT = Float32Array.BYTES_PER_ELEMENT;
/** Floats of a cache line, on which the tensors of a pass start: `native/model/slab.h`. */
const LINE = 16;
/** Bookkeeping of a cache page: `PagePool` in `native/rollout/page_pool.h`. */
const PAGE_INFO = 16 + Int32Array.BYTES_PER_ELEMENT;
/** Positions of the smallest rotary table: `native/model/rope.cc`. */
const LEAST_POSITIONS = 1024;
/** Rows that the MLP takes at a time on the processor: `native/backend/cpu/cpu_backend.cc`. */
const CPU_ROWS_TOGETHER = 512;
/** Rows that the head takes at a time: `native/model/head.cc`. */
export const HEAD_ROWS = 960;

/** What a size depends on. */
export interface EngineModel {
  config: Readonly<NativeModelConfig>;
  compute: ComputeType;
  device: DeviceName;
}

/** The next multiple of `to`. */
export const up = (value: number, to: number) => Math.ceil(value / to) * to;
const slab = (...floats: number[]) => FLOAT * floats.reduce((sum, count) => sum + up(count, LINE), 0);

/** Columns of the attention's matrices. */
export function widths({ heads, kvHeads, headDim }: NativeModelConfig) {
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

/** Cosines and sines for sequences of up to so many tokens, the first table that is made. */
export function rotaryBytes({ headDim, maxPositions }: NativeModelConfig, positions: number): number {
  const rows = Math.max(positions, Math.min(LEAST_POSITIONS, maxPositions));
  return 2 * FLOAT * (headDim / 2) * rows;
}

/** Bytes of a number in the cache's pages. */
export function cacheNumberBytes({ compute, device }: Pick<EngineModel, "compute" | "device">): number {
  return device === "cuda" && compute === "bf16" ? FLOAT / 2 : FLOAT;
}

/** Pages of a cache for so many tokens, of numbers of so many bytes; and what is written down about them. */
export function cacheBytes(
  { layers, kvHeads, headDim }: NativeModelConfig,
  tokens: number,
  number: number,
): { pages: number; bookkeeping: number } {
  const pages = Math.ceil(tokens / PAGE_TOKENS);
  return {
    pages: pages * 2 * layers * kvHeads * headDim * PAGE_TOKENS * number,
    bookkeeping: pages * PAGE_INFO,
  };
}

/** Logits of the sequences of a batch, and where the text of every token lies. */
export function decoderBytes({ tokenLimit }: NativeModelConfig, maxBatch: number) {
  return {
    logits: FLOAT * maxBatch * tokenLimit,
    texts: Uint32Array.BYTES_PER_ELEMENT * (tokenLimit + 1),
  };
}

/** Rows of which the widest results are held at a time without a gradient: `Backend::rows_together`. */
function rowsTogether(device: DeviceName, rows: number): number {
  return device === "cpu" ? Math.min(rows, CPU_ROWS_TOGETHER) : rows;
}

/** `wide` are the rows that the MLP has results of. */
function tapeBytes(config: NativeModelConfig, rows: number, wide: number, backward: boolean): number {
  const { heads, kvHeads, hidden, intermediate, qkNorm } = config;
  const { query, key, qkv } = widths(config);
  const kept = [rows, 2 * rows * heads, rows * hidden, rows];
  const normed = [rows * (query + key), rows * heads, rows * kvHeads];
  return slab(
    rows * qkv,
    rows * query,
    2 * wide * intermediate,
    ...(backward ? kept : []),
    ...(backward && qkNorm ? normed : []),
  );
}

function layerScratchBytes(config: NativeModelConfig, rows: number, wide: number, backward: boolean): number {
  const { hidden, intermediate, qkNorm } = config;
  const { query, key, qkv } = widths(config);
  return slab(
    rows * hidden,
    wide * intermediate,
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
export function decodeWorkspaceBytes({ config, device }: EngineModel, rows: number): number {
  const { hidden } = config;
  const wide = rowsTogether(device, rows);
  return (
    tapeBytes(config, rows, wide, false) +
    layerScratchBytes(config, rows, wide, false) +
    slab(rows * hidden, rows * hidden, rows * hidden)
  );
}

/** Buffers of a pass that scores, one entry each. */
export function scoringSlabs({ config, device }: EngineModel, pass: PassRows): number[] {
  const { rows } = pass;
  const wide = rowsTogether(device, rows);
  return [
    slab(rows * config.hidden, passPages(config, pass)),
    tapeBytes(config, rows, wide, false),
    layerScratchBytes(config, rows, wide, false),
  ];
}

/** Buffers of a pass that trains, one entry each. */
export function trainingSlabs(config: NativeModelConfig, pass: PassRows, checkpoint: boolean): number[] {
  const { rows } = pass;
  const { hidden, layers } = config;
  const residuals = Array.from({ length: layers + 2 }, () => rows * hidden);
  return [
    slab(...residuals, passPages(config, pass)),
    ...Array.from({ length: checkpoint ? 1 : layers }, () => tapeBytes(config, rows, rows, true)),
    layerScratchBytes(config, rows, rows, true),
  ];
}

/** What one pass runs together. Sequences are never cut: a longer one goes alone. */
export function passRows({ microBatchTokens, sequences }: MemorySettings, longest: number): PassRows {
  // The last token of a sequence predicts nothing and is not run; micro-batches are filled all the same.
  const rows = Math.min(Math.max(microBatchTokens, longest), sequences * longest);
  return { rows, longest };
}

/** Buffers of final norm and head over the rows of a pass; those of entropies, one float a row, aside. */
export function headSlab({ hidden }: NativeModelConfig, rows: number, backward: boolean): number {
  const n = Math.min(rows, HEAD_ROWS);
  const [states, columns] = backward ? [4, 3] : [2, 2];
  return slab(
    ...Array.from({ length: states }, () => n * hidden),
    ...Array.from({ length: columns }, () => n),
  );
}

/** @internal */
export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** A phase of these parts, and those beside the GPU if there is one. */
export function phase(parts: PhaseEstimate["parts"], host?: PhaseEstimate["parts"]): PhaseEstimate {
  const bytes = (of: PhaseEstimate["parts"]) => sum(Object.values(of));
  return { bytes: bytes(parts), parts, ...(host && { host: { bytes: bytes(host), parts: host } }) };
}

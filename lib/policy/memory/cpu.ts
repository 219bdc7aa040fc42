/** What the CPU engine allocates beside what all engines do: `native/backend/cpu`. */
import type { ComputeType, NativeModelConfig } from "../../native/model.js";
import type { DecoderOptions } from "../policy-options.js";
import type { MemoryEstimate, MemorySettings, PhaseEstimate } from "./report.js";
import {
  arenaBytes,
  cacheBytes,
  decoderBytes,
  decodeWorkspaceBytes,
  type EngineModel,
  FLOAT,
  HEAD_ROWS,
  headSlab,
  NODE_RUNTIME,
  PAGE_TOKENS,
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

/** Most that the engine keeps of buffers that are free: `BlockCache` in `native/backend/cpu/memory.h`. */
export const MOST_KEPT = 2 ** 30;
/** Columns of the widest vector, to which packed matrices are padded; narrower ones pad less. */
const VECTOR = 16;
/** Of the fused softmax: `native/backend/cpu/head.cc` and `softmax.h`. */
const HEAD_TILE_ROWS = 96;
const VOCABULARY_CHUNK = 768;
const CHUNK_STATISTICS = 3 * FLOAT;
/** Of matrix products: `native/backend/cpu/gemm.cc` and `linear.cc`. */
const ROW_BLOCK = 264;
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

/** What loading or initializing a model needs. */
export function cpuLoading(model: EngineModel): PhaseEstimate {
  return phase({ ...weightParts(model), staging: STAGING });
}

function weightParts(model: EngineModel) {
  return { weights: arenaBytes(model.config), packedWeights: packedBytes(model) };
}

/** What a decoder needs. */
export function cpuDecoding(
  model: EngineModel,
  { cacheTokens, maxBatch, prefillTokens }: Required<DecoderOptions>,
): PhaseEstimate {
  const { config } = model;
  const rows = Math.min(maxBatch + prefillTokens, cacheTokens);
  return phase({
    cache: sum(Object.values(cacheBytes(config, cacheTokens, FLOAT))),
    decoder: sum(Object.values(decoderBytes(config, maxBatch))) + decodeWorkspaceBytes(model, rows),
  });
}

/** The phases of a run. */
export function cpuPhases(model: EngineModel, settings: MemorySettings): MemoryEstimate["phases"] {
  const { config } = model;
  const { training, frozenCopy, decoder, longestSequence, longestScored, sequences, threads } = settings;
  const weights = weightParts(model);
  const load = phase({ ...weights, staging: STAGING, runtime: NODE_RUNTIME });

  // Of a run that has gone through all of its phases once.
  const scored = passRows(settings, longestScored);
  const trained = passRows(settings, longestSequence);
  const rotary = (longest: number) => rotaryBytes(config, longest);
  const standing: PhaseEstimate["parts"] = {
    ...weights,
    ...(frozenCopy && { frozenCopy: sum(Object.values(weights)) }),
    ...(training && { gradients: arenaBytes(config), moments: 2 * arenaBytes(config) }),
    rotaryTables: rotary(longestSequence) + (frozenCopy ? rotary(longestScored) : 0),
    scratch: Math.max(
      threadScratchBytes(model, trained, threads, training),
      frozenCopy ? threadScratchBytes(model, scored, threads, false) : 0,
    ),
    ...(decoder && cpuDecoding(model, decoder).parts),
    ...(training && decoder && { trajectories: sequences * longestSequence * TRAJECTORY_TOKEN }),
    runtime: NODE_RUNTIME,
  };
  const scoring = frozenCopy ? scoringSlabs(model, scored) : [];
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
  const { hidden, intermediate, tokenLimit, headDim } = config;
  const { query, qkv } = widths(config);
  const { leftBytes, kBlock } = OPERANDS[compute];
  const block = Math.min(rows, kBlock);
  // Of what is rounded as it is written, a row of floats a thread.
  const inner = [hidden, ATTENTION_ROWS * headDim, backward ? 3 * intermediate : intermediate];
  const row = leftBytes === 0 ? 0 : threads * FLOAT * Math.max(...inner);
  if (!backward) return row;
  // What is not rounded as it is written: attention that has a backward, and gradients but the gate's.
  const converted = [hidden, query, qkv].map((width) => [rows, width]);
  converted.push(...[qkv, hidden, 2 * intermediate].map((outputs) => [outputs, block]));
  converted.push([Math.min(tokenLimit, 2 * VOCABULARY_CHUNK), Math.min(rows, HEAD_ROWS)]);
  const shared = converted.map(([lines = 0, k = 0]) =>
    Math.min(Math.max(SHARED_LEFT, ROW_BLOCK * k * leftBytes), lines * k * leftBytes),
  );
  const left = threads * ROW_BLOCK * Math.min(kBlock, Math.max(hidden, query, qkv)) * leftBytes;
  const right = [
    [qkv, hidden],
    [hidden, query],
    [2 * intermediate, hidden],
    [hidden, intermediate],
  ].flatMap(([outputs = 0, inputs = 0]) => [
    Math.min(MOST_PACKED_OPERAND, packedOperand(compute, outputs, inputs)),
    packedOperand(compute, block, inputs),
  ]);
  const head = packedOperand(compute, Math.min(tokenLimit, 2 * VOCABULARY_CHUNK), hidden);
  return row + left + Math.max(...shared) + Math.max(...right, head);
}

function attentionScratchBytes({ headDim }: NativeModelConfig, longest: number, backward: boolean): number {
  const forward = ATTENTION_ROWS * (headDim + longest + 2 * PAGE_TOKENS);
  if (!backward) return FLOAT * forward;
  const tokens = up(longest, KEY_BLOCK);
  const gradient = tokens * (6 * up(headDim, PAGE_TOKENS) + 2 * headDim + 1) + 2 * ATTENTION_TILE;
  return FLOAT * Math.max(forward, gradient);
}

/**
 * What a machine allows at most, from its measured peak and bandwidth. Every work is taken as the larger of two times:
 * its multiply-adds at the peak, and the bytes it must read once at the bandwidth. Norms, softmax, sampling and the
 * writing of results count as nothing, so no program can reach a limit and a perfect one comes close.
 *
 * - Weights: 2 flop a parameter and token. Read once a pass: 2 bytes a parameter in bf16, 4 in f32.
 * - Attention over a context of c tokens: 4 c flop for every layer and unit of width (queries by keys, probabilities
 *   by values). Keys and values are read for every sequence, at 2 bytes in bf16, 4 in f32. A prompt that sequences
 *   share is still counted for each: kernels that read it once may beat the limit by a little.
 * - Training: three times the multiply-adds of the forward pass; causal attention sees half the length on average.
 * - Weights that fit in three quarters of the last-level cache are read at its bandwidth.
 */
import { headParameters, layerParameters, type ModelShape } from "./models.js";

/** What `bench/native/machine.cc` measures: flop and bytes a second with all threads. */
export interface Machine {
  f32: number;
  bf16: number;
  /** Reading memory. */
  memory: number;
  /** Reading the last-level cache. */
  cache: number;
  cacheBytes: number;
  /** Seconds until one thread sees what another wrote. */
  handover: number;
}

/** What is multiplied. */
export type Type = "f32" | "bf16";

const bytesOf = (type: Type) => (type === "f32" ? 4 : 2);

function seconds(machine: Machine, type: Type, flop: number, bytes: number, workingSet = bytes): number {
  const bandwidth = workingSet < 0.75 * machine.cacheBytes ? machine.cache : machine.memory;
  return Math.max(flop / machine[type], bytes / bandwidth);
}

/** Flop of attention for one token and one token of its context. */
const attentionFlop = ({ layers, heads, headDim }: ModelShape) => 4 * layers * heads * headDim;

/** Bytes of keys and values of one token. */
const cacheBytes = ({ layers, kvHeads, headDim }: ModelShape, type: Type) =>
  2 * layers * kvHeads * headDim * bytesOf(type);

/** Tokens a second of `batch` sequences that hold `context` tokens each. */
export function decodeLimit(machine: Machine, shape: ModelShape, type: Type, batch: number, context: number) {
  const parameters = layerParameters(shape) + headParameters(shape);
  const weights = seconds(machine, type, 2 * parameters * batch, parameters * bytesOf(type));
  const read = batch * context * cacheBytes(shape, type);
  const attention = seconds(machine, type, batch * context * attentionFlop(shape), read);
  return batch / (weights + attention);
}

/** Tokens a second of a prompt whose last token alone goes through the head. */
export function promptLimit(machine: Machine, shape: ModelShape, type: Type, length: number): number {
  const layers = 2 * layerParameters(shape) + (attentionFlop(shape) * length) / 2;
  return machine[type] / (layers + (2 * headParameters(shape)) / length);
}

/** Tokens a second of training steps over sequences of `length` tokens; the share of it is the MFU. */
export function trainingLimit(machine: Machine, shape: ModelShape, type: Type, length: number): number {
  const parameters = layerParameters(shape) + headParameters(shape);
  return machine[type] / (3 * (2 * parameters + (attentionFlop(shape) * length) / 2));
}

import { HindsearchError } from "../errors.js";
import type { PackedSequences } from "../native/model.js";
import type { BatchTotals, NativeObjective } from "../native/objective.js";
import type { Objective } from "./objective.js";

export type { BatchTotals } from "../native/objective.js";

/** Token ids, first to last. */
export type Tokens = Int32Array | readonly number[];

/** One entry per token; not 0: the token is meant. */
export type Mask = Uint8Array | readonly number[];

/**
 * One sequence of a training batch. Every column has one entry per token; an entry belongs to the token it stands at
 * (its log-prob is that of the token given those before it). Which columns are needed, the terms of the
 * {@link Objective} say; entries outside the term's mask are not looked at. Nothing predicts the first token of a
 * sequence, so it can be in no mask.
 */
export interface TrainingSequence {
  /** Prompt and everything after it. */
  tokens: Tokens;
  /** Not 0: the policy wrote this token. */
  policyMask?: Mask;
  /** Not 0: a token of the HindSearch term. */
  distillMask?: Mask;
  /** Of the distribution the token was drawn from. */
  oldLogProbs?: Float32Array | readonly number[];
  /** Of the frozen reference. */
  referenceLogProbs?: Float32Array | readonly number[];
  /** Of the teacher. */
  teacherLogProbs?: Float32Array | readonly number[];
  /** One number for all tokens, or one per token. */
  advantages?: number | Float32Array | readonly number[];
  /** Of the cross-entropy; 0 leaves a token out. */
  weights?: Float32Array | readonly number[];
}

/** Counts a batch, for {@link BatchTotals}. */
export function batchTotals(batch: readonly TrainingSequence[]): BatchTotals {
  const totals: BatchTotals = {
    policyTokens: 0,
    policySequences: 0,
    sequences: batch.length,
    distillTokens: 0,
    distillSequences: 0,
    weight: 0,
  };
  for (const { policyMask, distillMask, weights } of batch) {
    const policy = countSet(policyMask);
    const distill = countSet(distillMask);
    totals.policyTokens += policy;
    totals.policySequences += policy > 0 ? 1 : 0;
    totals.distillTokens += distill;
    totals.distillSequences += distill > 0 ? 1 : 0;
    // In float32 like the column that the engine gets, so that its own count is the same.
    for (const weight of weights ?? []) totals.weight += Math.fround(weight);
  }
  return totals;
}

function countSet(mask: Uint8Array | readonly number[] | undefined): number {
  let count = 0;
  for (const value of mask ?? []) count += value === 0 ? 0 : 1;
  return count;
}

/**
 * Lays sequences one after the other.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an id that is not a 32-bit integer.
 * @internal
 */
export function packTokens(sequences: readonly { tokens: Tokens }[]): PackedSequences {
  const offsets = new Int32Array(sequences.length + 1);
  let length = 0;
  for (const [index, { tokens }] of sequences.entries()) {
    length += tokens.length;
    if (length > 0x7fff_ffff) throw invalid("the batch has more than 2147483647 tokens");
    offsets[index + 1] = length;
  }
  const packed = new Int32Array(length);
  for (const [index, { tokens }] of sequences.entries()) {
    packed.set(toInt32Array(tokens, `sequence ${index}`), offsets[index]);
  }
  return { tokens: packed, offsets };
}

/**
 * @param place - Named in the message.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an id that is not a 32-bit integer, which a typed array would
 * silently turn into another one.
 * @internal
 */
export function toInt32Array(tokens: Tokens, place: string): Int32Array {
  if (tokens instanceof Int32Array) return tokens;
  if (!Array.isArray(tokens) && !ArrayBuffer.isView(tokens)) {
    throw invalid(`${place} is no list of token ids, but ${tokens === null ? "null" : typeof tokens}`);
  }
  const array = Int32Array.from(tokens);
  for (const [index, token] of array.entries()) {
    if (token !== tokens[index])
      throw invalid(`token ${index} of ${place} is ${tokens[index]}, not a token id`);
  }
  return array;
}

/** Views of the sequences in a packed column. An empty column gives empty views. @internal */
export function unpack(column: Float32Array, offsets: Int32Array): Float32Array[] {
  return Array.from({ length: offsets.length - 1 }, (_, index) =>
    column.subarray(offsets[index], offsets[index + 1]),
  );
}

/** The columns of a batch for the terms that are on, packed like its tokens. @internal */
export type PackedColumns = Omit<NativeObjective, "policy" | "kl" | "distill" | "crossEntropy" | "totals">;

/**
 * Packs the columns that an objective needs.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming the sequence and the column that is missing or has
 * another length than the tokens.
 * @internal
 */
export function packColumns(
  batch: readonly TrainingSequence[],
  { offsets }: PackedSequences,
  { policy, kl, distill, crossEntropy }: Objective,
): PackedColumns {
  const masks = (column: "policyMask" | "distillMask") =>
    pack(batch, offsets, column, new Uint8Array(offsets.at(-1) ?? 0), () => false);
  const numbers = (column: FloatColumn, needed: (sequence: TrainingSequence) => boolean) =>
    pack(batch, offsets, column, new Float32Array(offsets.at(-1) ?? 0), needed);
  const inPolicy = ({ policyMask }: TrainingSequence) => countSet(policyMask) > 0;
  const inDistill = ({ distillMask }: TrainingSequence) => countSet(distillMask) > 0;

  const columns: PackedColumns = {};
  if (policy || kl || batch.some(({ policyMask }) => policyMask !== undefined)) {
    columns.policyMask = masks("policyMask");
  }
  if (policy) {
    columns.oldLogProbs = numbers("oldLogProbs", inPolicy);
    columns.advantages = numbers("advantages", inPolicy);
  }
  if (kl) columns.referenceLogProbs = numbers("referenceLogProbs", inPolicy);
  if (distill) {
    columns.distillMask = masks("distillMask");
    columns.teacherLogProbs = numbers("teacherLogProbs", inDistill);
  }
  if (crossEntropy) columns.weights = numbers("weights", () => true);
  return columns;
}

/**
 * Packs the masks of sequences to score; a sequence without one is scored whole.
 *
 * @returns `undefined` if no sequence has one.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if a mask is not as long as its tokens.
 * @internal
 */
export function packMasks(
  sequences: readonly { tokens: Tokens; mask?: Mask }[],
  { offsets }: PackedSequences,
): Uint8Array | undefined {
  if (sequences.every(({ mask }) => mask === undefined)) return undefined;
  const packed = new Uint8Array(offsets.at(-1) ?? 0).fill(1);
  for (const [index, { tokens, mask }] of sequences.entries()) {
    if (mask) packMask(mask, tokens.length, packed, offsets[index] as number, `mask of sequence ${index}`);
  }
  return packed;
}

function packMask(mask: Mask, length: number, packed: Uint8Array, start: number, name: string): void {
  checkLength(mask, length, name);
  // Not set(): that takes masks modulo 256.
  for (let position = 0; position < length; position++)
    packed[start + position] = mask[position] === 0 ? 0 : 1;
}

function checkLength(values: ArrayLike<number>, length: number, name: string): void {
  if (values.length !== length) throw invalid(`${name} has ${values.length} entries for ${length} tokens`);
}

type FloatColumn = "oldLogProbs" | "referenceLogProbs" | "teacherLogProbs" | "advantages" | "weights";

/** Missing columns are zeros in sequences that do not need them: those without a token in the term's mask. */
function pack<Column extends Uint8Array | Float32Array>(
  batch: readonly TrainingSequence[],
  offsets: Int32Array,
  name: FloatColumn | "policyMask" | "distillMask",
  packed: Column,
  needed: (sequence: TrainingSequence) => boolean,
): Column {
  for (const [index, sequence] of batch.entries()) {
    const values = sequence[name];
    const start = offsets[index] as number;
    if (values === undefined) {
      if (needed(sequence)) throw invalid(`sequence ${index} has no ${name}, which the objective needs`);
    } else if (typeof values === "number") {
      packed.fill(values, start, start + sequence.tokens.length);
    } else if (packed instanceof Uint8Array) {
      packMask(values as Mask, sequence.tokens.length, packed, start, `${name} of sequence ${index}`);
    } else {
      checkLength(values, sequence.tokens.length, `${name} of sequence ${index}`);
      packed.set(values, start);
    }
  }
  return packed;
}

function invalid(what: string): HindsearchError {
  return new HindsearchError("INVALID_ARGUMENT", `Batch: ${what}.`);
}

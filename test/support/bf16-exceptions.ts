import { readFileSync } from "node:fs";

/** A figure of a golden case whose error in bf16 exceeds the limit of shared/golden/README.md. */
export interface Bf16Exception {
  model: string;
  /** Name of a sequence, or id of a loss. */
  case: string;
  /** "log-probs", "entropies", "loss", or the parameter whose gradient it is. */
  figure: string;
  error: number;
  /** How often PyTorch's bf16 exceeds the limit as well (scripts/bf16-limits.py). */
  pytorchBeyond: number;
  /** Key of `reasons`. */
  reason: string;
}

/** The exceptions, which the C++ tests read too. */
export const bf16Exceptions: { reasons: Record<string, string>; exceptions: Bf16Exception[] } = JSON.parse(
  readFileSync(new URL("../golden/bf16-exceptions.json", import.meta.url), "utf8"),
);

/**
 * The error that a figure of a golden case may have in bf16: the golden README's `limit`, or for an exception what was
 * measured and a quarter more, as another order of additions may round another number up.
 */
export function bf16Allowance(model: string, id: string, figure: string, limit: number): number {
  const exception = bf16Exceptions.exceptions.find(
    (each) => each.model === model && each.case === id && each.figure === figure,
  );
  if (exception === undefined) return limit;
  if (exception.error <= limit) throw new Error(`${model} ${id}: ${figure} needs no exception`);
  return 1.25 * exception.error;
}

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sharedPath } from "./shared.js";

/** The models of shared/golden/models, which shared/golden/grads has batches for too. */
export const goldenModels = [
  "qwen2_tied",
  "qwen2_untied_sharded",
  "qwen3_tied_bf16",
  "llama3_untied",
] as const;

/** Parsed contents of a golden file; its shape is described in shared/golden/README.md. */
// biome-ignore lint/suspicious/noExplicitAny: a test that reads a wrong shape fails anyway
export function readGolden(...path: string[]): any {
  return JSON.parse(readFileSync(sharedPath(...path), "utf8"), (_key, value) =>
    value === "inf" ? Number.POSITIVE_INFINITY : value === "-inf" ? Number.NEGATIVE_INFINITY : value,
  );
}

/** The binary arrays that lie beside a golden JSON file. */
export class GoldenArrays {
  readonly #bytes: Buffer;
  readonly #arrays: Record<string, { shape: number[]; offset: number }>;

  constructor(...jsonPath: string[]) {
    const { bin, arrays } = readGolden(...jsonPath);
    this.#bytes = readFileSync(join(dirname(sharedPath(...jsonPath)), bin));
    this.#arrays = arrays;
  }

  get(name: string): Float32Array {
    const array = this.#arrays[name];
    if (array === undefined) throw new Error(`No golden array ${name}`);
    const length = array.shape.reduce((product, side) => product * side, 1);
    const start = this.#bytes.byteOffset + array.offset;
    return new Float32Array(this.#bytes.buffer.slice(start, start + length * 4) as ArrayBuffer);
  }
}

/** Largest and root mean square difference; a NaN anywhere makes both NaN. */
export function difference(actual: ArrayLike<number>, expected: ArrayLike<number>) {
  if (actual.length !== expected.length) {
    throw new Error(`${actual.length} numbers, expected ${expected.length}`);
  }
  let max = 0;
  let squares = 0;
  for (let index = 0; index < expected.length; index++) {
    const error = Math.abs((actual[index] as number) - (expected[index] as number));
    max = error > max || Number.isNaN(error) ? error : max;
    squares += error * error;
  }
  return { max, rms: Math.sqrt(squares / Math.max(1, expected.length)), norm: Math.sqrt(squares) };
}

/** Euclidean norm. */
export function norm(values: ArrayLike<number>): number {
  return difference(values, new Float32Array(values.length)).norm;
}

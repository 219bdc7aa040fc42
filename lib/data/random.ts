import { createHash } from "node:crypto";
import { HindsearchError } from "../errors.js";

/** What a key is made of. Numbers must be safe integers; the number 7 and the bigint 7n are the same part. */
export type KeyPart = string | number | bigint;

/**
 * A 64-bit key from the parts that identify a stream of random numbers, such as (seed, "rollout", step, sample).
 *
 * The first eight bytes, little-endian, of SHA-256 over the parts, each written as `i<decimal>;` or
 * `s<UTF-8 bytes>:<text>;`, so that no two lists of parts are written alike.
 *
 * @param parts - In order; at least one.
 * @returns 0 to 2^64 - 1.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` without parts or on a number that is not a safe integer.
 */
export function hashKey(...parts: KeyPart[]): bigint {
  return keyDigest(parts).readBigUInt64LE(0);
}

function keyDigest(parts: readonly KeyPart[]): Buffer {
  if (parts.length === 0) throw new HindsearchError("INVALID_ARGUMENT", "A key needs at least one part.");
  const hash = createHash("sha256");
  for (const part of parts) {
    if (typeof part === "string") {
      hash.update(`s${Buffer.byteLength(part)}:${part};`);
    } else if (typeof part === "bigint" || Number.isSafeInteger(part)) {
      hash.update(`i${part};`);
    } else {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `A key part must be a safe integer or text, got ${part}.`,
      );
    }
  }
  return hash.digest();
}

/** Four 32-bit words. */
export type Words = [number, number, number, number];

/**
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), the generator that the native
 * side uses too: a block of 128 random bits as a function of a key and a counter, without state.
 *
 * @param key - Two words, low one first.
 * @param counter - Four words, low one first.
 * @internal
 */
export function philox(key: readonly [number, number], counter: Readonly<Words>): Words {
  let [k0, k1] = key;
  let [c0, c1, c2, c3] = counter;
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(0xd2511f53, c0);
    const high1 = multiplyHigh(0xcd9e8d57, c2);
    const low0 = Math.imul(0xd2511f53, c0) >>> 0;
    const low1 = Math.imul(0xcd9e8d57, c2) >>> 0;
    [c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** Upper half of a 32 x 32 bit product. Every intermediate value stays below 2^53, so doubles are exact. */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const cross = aLow * bHigh + (middle & 0xffff);
  return aHigh * bHigh + (middle >>> 16) + (cross >>> 16);
}

/** The two words of a key. @internal */
export function keyWords(parts: readonly KeyPart[]): [number, number] {
  const digest = keyDigest(parts);
  return [digest.readUInt32LE(0), digest.readUInt32LE(4)];
}

/**
 * A stream of random numbers that depends on its key alone: same parts, same numbers, on every machine.
 *
 * ```ts
 * const random = new Random("warm start", seed, step);
 * const index = random.integer(10);
 * ```
 */
export class Random {
  readonly #key: [number, number];
  #block = 0;
  #words: Words = [0, 0, 0, 0];
  #used = 4;

  /** @param parts - See {@link hashKey}. */
  constructor(...parts: KeyPart[]) {
    this.#key = keyWords(parts);
  }

  #word(): number {
    if (this.#used === 4) {
      this.#words = philox(this.#key, [this.#block >>> 0, Math.floor(this.#block / 2 ** 32), 0, 0]);
      this.#block++;
      this.#used = 0;
    }
    return this.#words[this.#used++] as number;
  }

  /** Uniform in [0, 1), 53 bits. */
  float(): number {
    const high = this.#word() >>> 5;
    const low = this.#word() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  /**
   * Uniform in 0 to `bound` - 1; the bias is below `bound` / 2^53.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` unless `bound` is an integer from 1 to 2^32.
   */
  integer(bound: number): number {
    if (!Number.isInteger(bound) || bound < 1 || bound > 2 ** 32) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `bound must be an integer from 1 to 2^32, got ${bound}; an empty list has nothing to draw from.`,
      );
    }
    return Math.floor(this.float() * bound);
  }

  /** One of `items`. @throws {@link HindsearchError} `INVALID_ARGUMENT` if there are none. */
  pick<T>(items: readonly T[]): T {
    return items[this.integer(items.length)] as T;
  }

  /**
   * Index drawn with probability proportional to `weights`.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if a weight is negative or not finite, or if all are 0.
   */
  weighted(weights: readonly number[]): number {
    const total = weights.reduce((sum, weight) => sum + (weight >= 0 ? weight : Number.NaN), 0);
    if (!(total > 0) || !Number.isFinite(total)) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `Weights must be finite and not negative, with at least one above 0; got [${weights.join(", ")}].`,
      );
    }
    let rest = this.float() * total;
    let last = 0;
    for (const [index, weight] of weights.entries()) {
      if (weight === 0) continue;
      last = index;
      rest -= weight;
      if (rest < 0) return index;
    }
    // Rounding can leave a rest of about 1e-16 of the total.
    return last;
  }

  /** A new array with `items` in random order (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    return this.sample(items, items.length);
  }

  /**
   * `count` different places of `items`, in random order.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if `count` is negative, fractional or more than there are.
   */
  sample<T>(items: readonly T[], count: number): T[] {
    if (!Number.isInteger(count) || count < 0 || count > items.length) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `count must be an integer from 0 to ${items.length}, the number of items; got ${count}.`,
      );
    }
    const drawn = [...items];
    for (let i = 0; i < count; i++) {
      const j = i + this.integer(drawn.length - i);
      [drawn[i], drawn[j]] = [drawn[j] as T, drawn[i] as T];
    }
    drawn.length = count;
    return drawn;
  }
}

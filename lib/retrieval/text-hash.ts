const pair = new Uint32Array(2);
const whole = new BigUint64Array(pair.buffer);

/**
 * A fast hash, the same on every machine: two multiplicative ones of 32 bits with different constants, each finished as
 * MurmurHash3 does it. Not for what an adversary gains by collisions.
 *
 * @returns 64 bits, never 0.
 */
export function hashText(text: string): bigint {
  let a = 0x811c9dc5 ^ text.length;
  let b = 0x9747b28c ^ text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul((b << 13) | (b >>> 19), 5) + Math.imul(code + 0x27d4eb2f, 0x165667b1);
  }
  pair[0] = finish(a);
  pair[1] = finish(b) || 1;
  return whole[0] as bigint;
}

function finish(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

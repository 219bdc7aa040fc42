import { hashText } from "../text-hash.js";

/**
 * A set of ids that only grows, in 16 to 32 bytes an id whatever their length: a set of strings would take some 2 GB
 * for the 21 million of Wikipedia.
 *
 * Of an id it keeps 64 bits of a hash. Two ids with the same bits would be taken for one; among 21 million that
 * happens once in some 80,000 corpora.
 */
export class IdSet {
  #table = new BigUint64Array(1 << 16);
  #size = 0;

  /** @returns Whether it was new. */
  add(id: string): boolean {
    if (this.#size * 2 >= this.#table.length) this.#grow();
    if (!insert(this.#table, hashText(id))) return false;
    this.#size++;
    return true;
  }

  #grow(): void {
    const larger = new BigUint64Array(this.#table.length * 2);
    for (const entry of this.#table) if (entry !== 0n) insert(larger, entry);
    this.#table = larger;
  }
}

/** Open addressing; 0 marks an empty place. */
function insert(table: BigUint64Array, entry: bigint): boolean {
  const mask = table.length - 1;
  for (let place = Number(entry & 0xffffffffn) & mask; ; place = (place + 1) & mask) {
    const found = table[place];
    if (found === entry) return false;
    if (found !== 0n) continue;
    table[place] = entry;
    return true;
  }
}

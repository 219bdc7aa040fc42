import type { Steps } from "./time-slice.js";

/** Postings handled between two chances for the event loop. */
const STEP = 16_384;

/**
 * An inverted index over documents 0 .. N - 1 in typed arrays: the postings of term w are the entries
 * `starts[w] .. starts[w + 1]` of `documents` (ascending) and `frequencies`.
 */
export interface Postings {
  /** The number w of every term. */
  readonly terms: ReadonlyMap<string, number>;
  /** Length V + 1. */
  readonly starts: Float64Array;
  /** Which document. */
  readonly documents: Uint32Array;
  /** How often the term occurs there, at least 1. */
  readonly frequencies: Uint32Array;
  /** Length N: terms per document, repetitions counted. */
  readonly lengths: Uint32Array;
}

/** Collects documents, then sorts what they hold by term. */
export class PostingsBuilder {
  readonly #terms = new Map<string, number>();
  readonly #perTerm = new GrowingArray();
  readonly #lengths = new GrowingArray();
  /** One entry per posting, in document order; `#ends` has one per document. */
  readonly #postingTerms = new GrowingArray();
  readonly #postingFrequencies = new GrowingArray();
  readonly #ends = new GrowingArray();

  /** Takes the next document in, as the terms of the pieces of its text. */
  *add(pieces: Iterable<readonly string[]>): Steps<void> {
    const counts = new Map<number, number>();
    let length = 0;
    for (const terms of pieces) {
      for (const term of terms) {
        const number = this.#number(term);
        counts.set(number, (counts.get(number) ?? 0) + 1);
      }
      length += terms.length;
      yield;
    }
    let work = 0;
    for (const [number, count] of counts) {
      this.#perTerm.values[number] = at(this.#perTerm.values, number) + 1;
      this.#postingTerms.push(number);
      this.#postingFrequencies.push(count);
      if (++work % STEP === 0) yield;
    }
    this.#lengths.push(length);
    this.#ends.push(this.#postingTerms.length);
  }

  #number(term: string): number {
    const known = this.#terms.get(term);
    if (known !== undefined) return known;
    // A term is a slice of its passage, and V8 keeps the whole passage alive for a slice of 13 characters or more.
    const own = term.length < 13 ? term : Buffer.from(term, "utf16le").toString("utf16le");
    this.#terms.set(own, this.#terms.size);
    this.#perTerm.push(0);
    return this.#terms.size - 1;
  }

  /** The index of what was added. */
  *build(): Steps<Postings> {
    const starts = new Float64Array(this.#terms.size + 1);
    for (let w = 0; w < this.#terms.size; w++) starts[w + 1] = at(starts, w) + at(this.#perTerm.values, w);
    const next = starts.slice();
    const documents = new Uint32Array(this.#postingTerms.length);
    const frequencies = new Uint32Array(this.#postingTerms.length);
    let document = 0;
    for (let posting = 0; posting < this.#postingTerms.length; posting++) {
      while (posting >= at(this.#ends.values, document)) document++;
      const term = at(this.#postingTerms.values, posting);
      const place = at(next, term);
      next[term] = place + 1;
      documents[place] = document;
      frequencies[place] = at(this.#postingFrequencies.values, posting);
      if (posting % STEP === 0) yield;
    }
    return { terms: this.#terms, starts, documents, frequencies, lengths: this.#lengths.trimmed() };
  }
}

/** A `Uint32Array` that doubles when it is full. */
class GrowingArray {
  values = new Uint32Array(1024);
  length = 0;

  push(value: number): void {
    if (this.length === this.values.length) {
      const larger = new Uint32Array(this.length * 2);
      larger.set(this.values);
      this.values = larger;
    }
    this.values[this.length++] = value;
  }

  trimmed(): Uint32Array {
    return this.values.slice(0, this.length);
  }
}

/** An element that is known to exist; the check costs nothing next to the memory access. */
function at(array: Uint32Array | Float64Array, index: number): number {
  return array[index] as number;
}

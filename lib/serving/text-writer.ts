import type { TokenBytes } from "../policy/token-bytes.js";

/**
 * Turns tokens into text as they come: whole characters only, and nothing that may yet turn out to be the beginning of
 * a stop text.
 */
export class TextWriter {
  readonly #table: TokenBytes;
  readonly #stops: readonly string[];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Not given out yet. */
  #held = "";
  #stopped = false;

  /** @param stops - None empty. */
  constructor(table: TokenBytes, stops: readonly string[]) {
    this.#table = table;
    this.#stops = stops;
  }

  /** Whether a stop text was written. It and what follows is not given out. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Takes tokens in and returns the text that is certain by now. */
  write(tokens: Int32Array): string {
    const { bytes, offsets } = this.#table;
    for (const id of tokens) {
      this.#held += this.#decoder.decode(bytes.subarray(offsets[id], offsets[id + 1]), { stream: true });
    }
    return this.#release(false);
  }

  /** The rest; a character that was cut off becomes U+FFFD. */
  end(): string {
    this.#held += this.#decoder.decode();
    return this.#release(true);
  }

  #release(all: boolean): string {
    if (this.#stopped) return "";
    const found = this.#stops.map((stop) => this.#held.indexOf(stop)).filter((index) => index >= 0);
    if (found.length > 0) {
      this.#stopped = true;
      return this.#held.slice(0, Math.min(...found));
    }
    const keep = all ? 0 : Math.max(0, ...this.#stops.map((stop) => this.#beginning(stop)));
    const text = this.#held.slice(0, this.#held.length - keep);
    this.#held = this.#held.slice(this.#held.length - keep);
    return text;
  }

  /** Length of the longest beginning of a stop text that the held text ends with. */
  #beginning(stop: string): number {
    for (let length = Math.min(stop.length - 1, this.#held.length); length > 0; length--) {
      if (this.#held.endsWith(stop.slice(0, length))) return length;
    }
    return 0;
  }
}

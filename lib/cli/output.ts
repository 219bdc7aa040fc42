import type { Writable } from "node:stream";
import { Scrubber } from "../network/secrets.js";

/** Between two reports of progress where there is no terminal. */
const PLAIN_INTERVAL = 30_000;
/** Between two where there is one, or a program that reads. */
const LIVE_INTERVAL = 200;
const JSON_INTERVAL = 1_000;

/** A stream that may be a terminal. */
export type OutputStream = Writable & { isTTY?: boolean; columns?: number };

/** Where a command says things. */
export interface OutputStreams {
  /** Results. */
  out: OutputStream;
  /** Everything else. */
  errors: OutputStream;
}

/** Those of the process. */
export const PROCESS_STREAMS: OutputStreams = { out: process.stdout, errors: process.stderr };

/**
 * What a command says: results on the standard output, everything else on the standard error; with `--json` one object per
 * line on the standard output, and nothing for people but errors.
 */
export class Output {
  private readonly out: OutputStream;
  private readonly errors: OutputStream;
  #live = false;
  #lastProgress = Number.NEGATIVE_INFINITY;
  #scrubber = new Scrubber([]);

  constructor(
    /** Whether a program reads. */
    readonly json: boolean,
    { out, errors }: OutputStreams,
  ) {
    this.out = out;
    this.errors = errors;
    // Whoever reads may go away; a training goes on.
    for (const stream of [out, errors]) stream.on("error", () => {});
  }

  /** Values that are never written. */
  hide(secrets: readonly string[]): void {
    this.#scrubber = new Scrubber(secrets);
  }

  /** A line of a result, for people. */
  line(text = ""): void {
    if (!this.json) this.#write(this.out, text);
  }

  /** A text for people and programs alike, as it is. */
  raw(text: string): void {
    this.#write(this.out, text);
  }

  /** A line beside the results, for people. */
  note(text: string): void {
    if (!this.json) this.#write(this.errors, text);
  }

  /** Something odd, for people and programs. */
  warn(text: string): void {
    this.note(`Warning: ${text}`);
    this.event("warning", { message: text });
  }

  /** An object, for programs. */
  event(event: string, fields: object = {}): void {
    if (this.json) this.#write(this.out, JSON.stringify({ event, ...fields }));
  }

  /** An error, for people in any case. */
  error(code: string, message: string): void {
    this.event("error", { code, message });
    this.#write(this.errors, `hindsearch: ${message} (${code})`);
  }

  /**
   * Where something long is: a line that is replaced on a terminal, now and then a plain line elsewhere.
   *
   * @param text - For people.
   * @param fields - For programs.
   * @param last - Whether this is the end of its phase, which programs are told in any case.
   */
  progress(text: () => string, fields: () => object, last = false): void {
    const now = performance.now();
    const interval = this.json ? JSON_INTERVAL : this.errors.isTTY ? LIVE_INTERVAL : PLAIN_INTERVAL;
    const due = now - this.#lastProgress >= interval;
    if (!due && !(last && this.json)) return;
    this.#lastProgress = now;
    if (this.json) this.event("progress", fields());
    else if (!this.errors.isTTY) this.#write(this.errors, text());
    else {
      const width = (this.errors.columns ?? 80) - 1;
      this.errors.write(`\r\x1b[K${this.#scrubber.scrub(text()).slice(0, width)}`);
      this.#live = true;
    }
  }

  /** Takes the replaced line away. */
  endProgress(): void {
    if (this.#live) this.errors.write("\r\x1b[K");
    this.#live = false;
  }

  #write(stream: OutputStream, text: string): void {
    this.endProgress();
    stream.write(`${this.#scrubber.scrub(text)}\n`);
  }
}

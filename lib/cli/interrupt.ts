import { endEarly } from "./early-interrupt.js";
import { EXIT } from "./exit-codes.js";

/** What a command has to end in after the second Ctrl-C, in milliseconds. */
const GRACE = 3_000;

/**
 * Ctrl-C and polite kills of a command. The first asks it to finish what it is at; the second ends it at once. A command
 * that has nothing to finish is ended by the first.
 */
export class Interrupt implements Disposable {
  /** Fires at the first. */
  readonly finish: AbortSignal;
  /** Fires when the command is to end at once. */
  readonly stop: AbortSignal;
  readonly #finish = new AbortController();
  readonly #stop = new AbortController();
  readonly #listeners = new Map<NodeJS.Signals, () => void>();
  readonly #onFinish: (() => void) | undefined;
  #code: number | undefined;

  /**
   * @param onFinish - Hears of the first one, if the command can finish what it is at; else the first one ends it.
   */
  constructor(onFinish?: () => void) {
    this.finish = this.#finish.signal;
    this.stop = this.#stop.signal;
    this.#onFinish = onFinish;
    for (const [name, code] of [
      ["SIGINT", EXIT.interrupted],
      ["SIGTERM", EXIT.terminated],
    ] as const) {
      const listener = () => this.#heard(code);
      this.#listeners.set(name, listener);
      process.on(name, listener);
    }
    endEarly();
  }

  /** The exit code of a command that was interrupted; `undefined` if it was not. */
  get code(): number | undefined {
    return this.#code;
  }

  [Symbol.dispose](): void {
    for (const [name, listener] of this.#listeners) process.off(name, listener);
  }

  #heard(code: number): void {
    const first = this.#code === undefined;
    this.#code = code;
    this.#finish.abort();
    if (first && this.#onFinish) {
      this.#onFinish();
      return;
    }
    if (this.#stop.signal.aborted) process.exit(code);
    this.#stop.abort();
    setTimeout(() => process.exit(code), GRACE).unref();
  }
}

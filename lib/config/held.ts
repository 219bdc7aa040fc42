/** Things to give back, the last first. Node 20 has no `AsyncDisposableStack`. */
export class Held {
  readonly #releases: (() => unknown)[] = [];

  /** Takes charge of something. */
  add<T extends Disposable | AsyncDisposable>(value: T): T {
    this.#releases.push(() =>
      Symbol.asyncDispose in value ? value[Symbol.asyncDispose]() : value[Symbol.dispose](),
    );
    return value;
  }

  /** Gives all back. One that fails does not keep the others; the first error is thrown behind them. */
  async release(): Promise<void> {
    const errors: unknown[] = [];
    for (let next = this.#releases.pop(); next; next = this.#releases.pop()) {
      try {
        await next();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}

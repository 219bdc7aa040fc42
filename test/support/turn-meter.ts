/** Processor time between turns of the event loop: unlike the clock's, it does not grow when the machine is busy. */
export class TurnMeter {
  readonly #milliseconds: number[] = [];
  #last = process.cpuUsage();
  #running = true;

  constructor() {
    const turn = () => {
      const { user, system } = process.cpuUsage(this.#last);
      this.#milliseconds.push((user + system) / 1000);
      this.#last = process.cpuUsage();
      if (this.#running) setImmediate(turn);
    };
    setImmediate(turn);
  }

  /** Milliseconds of every turn, sorted. */
  stop(): number[] {
    this.#running = false;
    return this.#milliseconds.sort((x, y) => x - y);
  }
}

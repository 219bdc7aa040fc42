/** Contenders measured in turn, round by round, so that what the machine does meanwhile hits all of them. */

/** Figures of one round by their names. */
export type Sample = Readonly<Record<string, number>>;

/** Something that is measured. */
export interface Contender {
  name: string;
  run(): Promise<Sample>;
}

/** The results of all rounds. */
export class Rounds {
  readonly #samples = new Map<string, Sample[]>();

  /** Runs every contender once a round; the order turns with the rounds. */
  static async run(contenders: readonly Contender[], count: number, log: (line: string) => void) {
    const rounds = new Rounds();
    for (let round = 0; round < count; round++) {
      for (let i = 0; i < contenders.length; i++) {
        const { name, run } = contenders[(i + round) % contenders.length] as Contender;
        const sample = await run();
        rounds.add(name, sample);
        log(`round ${round + 1}, ${name}: ${summary(sample)}`);
      }
    }
    return rounds;
  }

  /** Appends a sample. */
  add(contender: string, sample: Sample): void {
    const samples = this.#samples.get(contender);
    if (samples) samples.push(sample);
    else this.#samples.set(contender, [sample]);
  }

  /** Whether the contender was there. */
  has(contender: string): boolean {
    return this.#samples.has(contender);
  }

  /** One number per round. */
  each(contender: string, of: string | ((sample: Sample) => number)): number[] {
    const pick = typeof of === "string" ? (sample: Sample) => sample[of] ?? Number.NaN : of;
    return (this.#samples.get(contender) ?? []).map(pick);
  }

  /** Median over the rounds. */
  median(contender: string, of: string | ((sample: Sample) => number)): number {
    return median(this.each(contender, of));
  }
}

/** Median; the mean of the middle two of an even number. NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1] ?? Number.NaN;
  const lower = sorted[(sorted.length - 1) >> 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

/** Arithmetic mean; NaN of nothing. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Geometric mean, the mean for ratios; NaN of nothing. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(mean(values.map(Math.log)));
}

/** Median over the rounds of a number of one contender by that of another. */
export function medianRatio(above: readonly number[], below: readonly number[]): number {
  return median(above.map((value, round) => value / (below[round] ?? Number.NaN)));
}

function summary(sample: Sample): string {
  const entries = Object.entries(sample).map(([name, value]) => `${name} ${Number(value.toPrecision(4))}`);
  return entries.length <= 8 ? entries.join(", ") : `${entries.length} figures`;
}

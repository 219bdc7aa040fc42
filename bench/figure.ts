/** What a row of the bench reports. */

/** What was to be reached, and whether it was. */
export interface Target {
  /** In words, e.g. `>= 2 x llama.cpp`. */
  text: string;
  /** What was reached in the same terms; `null` if it was not measured. */
  reached: number | null;
  /** `null` if it was not measured. */
  met: boolean | null;
}

/** Another program's result for the same figure. */
export interface PeerResult {
  /** Median over the rounds. */
  value: number;
  /** One per round. */
  samples: readonly number[];
  /** Ours by theirs, median over the rounds. */
  ratio: number;
}

/** One line of the table. */
export interface Figure {
  row: string;
  name: string;
  unit: string;
  /** Median over the rounds. */
  value: number;
  /** One per round. */
  samples: readonly number[];
  /** What the machine allows at most, by `limits.ts`, and the share of it that was reached. */
  limit?: { value: number; share: number };
  /** Of the process that did nothing else, in bytes. */
  peakMemory?: number;
  peers?: Readonly<Record<string, PeerResult>>;
  targets: readonly Target[];
  /** Whatever else was measured. */
  details?: unknown;
}

/** A target that wants at least `bound`. */
export function atLeast(bound: number, of: string, reached: number | undefined): Target {
  const met = reached === undefined ? null : reached >= bound;
  return { text: `>= ${bound} ${of}`, reached: reached ?? null, met };
}

/** A target that wants at most `bound`. */
export function atMost(bound: number, of: string, reached: number | undefined): Target {
  const met = reached === undefined ? null : reached <= bound;
  return { text: `<= ${bound} ${of}`, reached: reached ?? null, met };
}

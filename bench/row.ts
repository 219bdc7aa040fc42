/** What every row of the bench works with. */
import type { Figure, PeerResult } from "./figure.js";
import type { Machine } from "./limits.js";
import { runNative } from "./native.js";
import type { Peers } from "./peers/peers.js";
import { type Contender, medianRatio, type Rounds, type Sample } from "./rounds.js";

/** The setting of a run. */
export interface Bench {
  rounds: number;
  threads: number;
  signal: AbortSignal;
  /** Which are there; none without `--peers`. */
  peers: Peers;
  /** For progress. */
  log(line: string): void;
}

/** A part of the table. */
export interface Row {
  /** What the command line calls it. */
  name: string;
  measure(bench: Bench): Promise<Figure[]>;
}

/** The name that our own results go by. */
export const OURS = "ours";
const MACHINE = "machine";

/** Measures peak and bandwidth in turn with the others, for limits of the same minute. */
export function machine(bench: Bench): Contender {
  return {
    name: MACHINE,
    run: async () => {
      const [line] = await runNative<Sample>("machine_bench", [], bench);
      const { f32, bf16, memory, cache, cacheBytes, handover } = line as Sample & Machine;
      return { f32, bf16, memory, cache, cacheBytes, handover };
    },
  };
}

/**
 * Limit and share of it, round by round. The peak is the best of all rounds: it does not change, and what disturbs its
 * measurement only lowers it. Bandwidth is that of the round.
 */
export function limitOf(
  rounds: Rounds,
  samples: readonly number[],
  limit: (machine: Machine) => number,
): NonNullable<Figure["limit"]> {
  const f32 = Math.max(...rounds.each(MACHINE, "f32"));
  const bf16 = Math.max(...rounds.each(MACHINE, "bf16"));
  const of = (sample: Sample) => limit({ ...(sample as Sample & Machine), f32, bf16 });
  return { value: rounds.median(MACHINE, of), share: medianRatio(samples, rounds.each(MACHINE, of)) };
}

/** What the peers reached, as far as they took part. */
export function peerResults(rounds: Rounds, figure: string, names: readonly string[]) {
  const ours = rounds.each(OURS, figure);
  const results: Record<string, PeerResult> = {};
  for (const name of names) {
    const samples = rounds.each(name, figure);
    if (!samples.some(Number.isFinite)) continue;
    results[name] = { value: rounds.median(name, figure), samples, ratio: medianRatio(ours, samples) };
  }
  return results;
}

import { atMost, type Figure } from "../figure.js";
import type { Type } from "../limits.js";
import { runNative } from "../native.js";
import { Rounds } from "../rounds.js";
import { type Bench, OURS, type Row } from "../row.js";

const TOKENS = 4096;
const MEBIBYTE = 2 ** 20;

/** Products that log-probs and their gradient take when logits are never held; see `bench/native/head.cc`. */
const FORWARD_PRODUCTS = 1;
const ALL_PRODUCTS = 4;

/** What `bench/native/head.cc` prints: seconds, bytes, flop of one product, flop a second. */
interface Line {
  forward: number;
  backward: number;
  extraBytes: number;
  product: number;
  flop: number;
  peak: number;
}

/** Vocabulary head and loss. */
export const head: Row = {
  name: "head",
  measure: async (bench) => [...(await headFigures(bench, "bf16")), ...(await headFigures(bench, "f32"))],
};

async function headFigures(bench: Bench, type: Type): Promise<Figure[]> {
  const run = async () => {
    const [line] = await runNative<Line>("head_bench", [type, TOKENS], bench);
    const { forward, backward, extraBytes, product, flop, peak } = line as Line;
    const total = forward + backward;
    return {
      forward: forward / (FORWARD_PRODUCTS * product),
      total: total / (ALL_PRODUCTS * product),
      share: (ALL_PRODUCTS * flop) / peak / total,
      seconds: total,
      extraBytes,
    };
  };
  const rounds = await Rounds.run([{ name: OURS, run }], bench.rounds, (line) =>
    bench.log(`${type}, ${line}`),
  );
  const extra = Math.max(...rounds.each(OURS, "extraBytes"));
  const figure = (name: string, key: string) => {
    const value = rounds.median(OURS, key);
    return {
      row: "head",
      name: `${type}, ${name}`,
      unit: "x the products",
      value,
      samples: rounds.each(OURS, key),
      targets: [atMost(1.1, "x the products it needs", value)],
    };
  };
  return [
    figure("log-probs of 4,096 tokens", "forward"),
    {
      ...figure("log-probs and gradient", "total"),
      details: { seconds: rounds.median(OURS, "seconds"), shareOfPeak: rounds.median(OURS, "share") },
    },
    {
      row: "head",
      name: `${type}, extra peak memory`,
      unit: "MiB",
      value: extra / MEBIBYTE,
      samples: rounds.each(OURS, (sample) => (sample.extraBytes ?? Number.NaN) / MEBIBYTE),
      targets: [atMost(128, "MiB", extra / MEBIBYTE)],
    },
  ];
}

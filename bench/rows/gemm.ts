import { atLeast, type Figure } from "../figure.js";
import type { Type } from "../limits.js";
import { runNative } from "../native.js";
import { type Contender, geometricMean, mean, median, medianRatio, Rounds, type Sample } from "../rounds.js";
import { type Bench, OURS, type Row } from "../row.js";

const ONE_DNN = "oneDNN";
const SHAPES = ["o", "qkv", "up", "down", "head"];
const MODELS = ["0.5B", "3B"];
const FEW_ROWS = [1, 8];
const MANY_ROWS = [32, 64, 256];

/** What `bench/native/gemm_cells.cc` prints. */
interface Line {
  shape: string;
  type: Type;
  rows: number;
  from: "cache" | "memory";
  /** Tenth percentile of the calls. */
  seconds: number;
  median: number;
  flop: number;
  bytes: number;
  /** Of the moment before, flop and bytes a second. */
  peak: number;
  bandwidth: number;
}

/** One shape, type, number of rows and place of the weights. */
interface Cell {
  shape: string;
  rows: number;
  from: "cache" | "memory";
  /** Percent of the peak, and for weights from memory of the bandwidth; medians over the rounds. */
  peak: number;
  bandwidth: number | null;
  gflops: number;
  /** oneDNN's percent of the peak, and our speed by theirs. */
  oneDnnPeak: number | null;
  ratio: number | null;
}

/** Matrix products over the layers of two models. */
export const gemm: Row = {
  name: "gemm",
  async measure(bench) {
    const figures: Figure[] = [];
    for (const type of ["bf16", "f32"] as const) {
      const cells: Cell[] = [];
      for (const shape of MODELS.flatMap((model) => SHAPES.map((layer) => `${model} ${layer}`))) {
        const contenders = [contender(bench, OURS, "gemm_bench", type, shape)];
        if (bench.peers.oneDnn) contenders.push(contender(bench, ONE_DNN, "onednn_bench", type, shape));
        const rounds = await Rounds.run(contenders, bench.rounds, (line) =>
          bench.log(`${type} ${shape}, ${line}`),
        );
        cells.push(...cellsOf(rounds, shape));
      }
      figures.push(...figuresOf(type, cells));
    }
    return figures;
  },
};

function contender(bench: Bench, name: string, program: string, type: Type, shape: string): Contender {
  return {
    name,
    run: async () => {
      const sample: Record<string, number> = {};
      const lines = await runNative<Line>(program, [type, shape], bench);
      // Within these seconds neither changes; one disturbed measurement must not make a cell look good.
      const peak = median(lines.map((line) => line.peak));
      const bandwidth = median(lines.filter(({ from }) => from === "memory").map((line) => line.bandwidth));
      for (const line of lines) {
        const key = `${line.rows} ${line.from}`;
        sample[`${key} gflops`] = line.flop / line.seconds / 1e9;
        sample[`${key} peak`] = (100 * line.flop) / line.seconds / peak;
        if (line.from === "memory") {
          sample[`${key} bandwidth`] = (100 * line.bytes) / line.seconds / bandwidth;
        }
      }
      return sample;
    },
  };
}

function cellsOf(rounds: Rounds, shape: string): Cell[] {
  const cells: Cell[] = [];
  for (const from of ["cache", "memory"] as const) {
    for (const rows of [...FEW_ROWS, ...MANY_ROWS]) {
      const of = (figure: string) => (sample: Sample) => sample[`${rows} ${from} ${figure}`] ?? Number.NaN;
      const peak = rounds.median(OURS, of("peak"));
      // Large weights are in no cache.
      if (Number.isNaN(peak)) continue;
      const oneDnn = rounds.has(ONE_DNN);
      cells.push({
        shape,
        rows,
        from,
        peak,
        bandwidth: from === "memory" ? rounds.median(OURS, of("bandwidth")) : null,
        gflops: rounds.median(OURS, of("gflops")),
        oneDnnPeak: oneDnn ? rounds.median(ONE_DNN, of("peak")) : null,
        ratio: oneDnn
          ? medianRatio(rounds.each(OURS, of("gflops")), rounds.each(ONE_DNN, of("gflops")))
          : null,
      });
    }
  }
  return cells;
}

function figuresOf(type: Type, cells: readonly Cell[]): Figure[] {
  const figures: Figure[] = [];
  for (const from of ["cache", "memory"] as const) {
    for (const rows of [...FEW_ROWS, ...MANY_ROWS]) {
      const own = cells.filter((cell) => cell.rows === rows && cell.from === from);
      const ofBandwidth = from === "memory" && FEW_ROWS.includes(rows);
      const shares = own.map(({ peak, bandwidth }) => (ofBandwidth ? (bandwidth ?? Number.NaN) : peak));
      figures.push({
        row: "gemm",
        name: `${type}, from ${from}, M = ${rows}, mean of shapes`,
        unit: ofBandwidth ? "% of bandwidth" : "% of peak",
        value: mean(shares),
        samples: [],
        ...(own.some(({ ratio }) => ratio !== null) && { peers: { [ONE_DNN]: peerOf(own, ofBandwidth) } }),
        targets: ofBandwidth ? [atLeast(85, "% of bandwidth", mean(shares))] : [],
        details: own,
      });
    }
  }
  const many = cells.filter(({ rows }) => MANY_ROWS.includes(rows));
  const peaks = many.map(({ peak }) => peak);
  const compared = many.flatMap(({ ratio }) => (ratio === null ? [] : [ratio]));
  figures.push({
    row: "gemm",
    name: `${type}, M >= 32, mean of everything`,
    unit: "% of peak",
    value: mean(peaks),
    samples: [],
    ...(compared.length > 0 && { peers: { [ONE_DNN]: peerOf(many, false) } }),
    targets: [
      atLeast(90, "% of peak on average", mean(peaks)),
      atLeast(82, "% of peak at every shape", Math.min(...peaks)),
      atLeast(1, `x ${ONE_DNN} on average`, compared.length > 0 ? geometricMean(compared) : undefined),
    ],
    details: { worst: [...many].sort((a, b) => a.peak - b.peak).slice(0, 5) },
  });
  return figures;
}

function peerOf(cells: readonly Cell[], ofBandwidth: boolean) {
  const shares = cells.flatMap(({ oneDnnPeak, peak, bandwidth }) =>
    oneDnnPeak === null ? [] : [ofBandwidth ? (oneDnnPeak / peak) * (bandwidth ?? Number.NaN) : oneDnnPeak],
  );
  const ratios = cells.flatMap(({ ratio }) => (ratio === null ? [] : [ratio]));
  return { value: mean(shares), samples: [], ratio: geometricMean(ratios) };
}

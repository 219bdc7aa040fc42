/** Results as a table, for the terminal and for Markdown. */
import type { Figure, Target } from "./figure.js";
import type { Setting } from "./machine.js";

/** What the JSON file holds. */
export interface Report {
  setting: Setting;
  figures: readonly Figure[];
}

const HEADS = [
  "row",
  "what",
  "ours",
  "unit",
  "% of limit",
  "peak memory",
  "peers (ours / theirs)",
  "target",
  "met",
];

/** For the terminal: columns padded. */
export function textTable(figures: readonly Figure[]): string {
  const rows = [HEADS, ...figures.map(cells)];
  const widths = HEADS.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** For a page. */
export function markdownTable(figures: readonly Figure[]): string {
  const lines = [HEADS, HEADS.map(() => "---"), ...figures.map(cells)];
  return lines.map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** One line about where the numbers come from. */
export function settingLine({ date, commit, cpu, instructionSet, threads, load, machine }: Setting): string {
  const giga = (value: number) => (value / 1e9).toFixed(0);
  return (
    `${date.slice(0, 16)}Z, commit ${commit}, ${cpu} (${instructionSet}), ${threads} threads, ` +
    `load ${load.start[0]?.toFixed(1)} to ${load.end[0]?.toFixed(1)}; at the start peak ${giga(machine.bf16)} GFLOP/s bf16 and ` +
    `${giga(machine.f32)} f32, reading ${giga(machine.memory)} GB/s from memory, ` +
    `${(machine.handover * 1e9).toFixed(0)} ns from thread to thread`
  );
}

function cells(figure: Figure): string[] {
  const { row, name, value, unit, limit, peakMemory, peers = {}, targets } = figure;
  return [
    row,
    name,
    short(value),
    unit,
    limit ? (100 * limit.share).toFixed(0) : "",
    peakMemory === undefined ? "" : `${(peakMemory / 2 ** 30).toFixed(2)} GiB`,
    Object.entries(peers)
      .map(([peer, result]) => `${peer} ${short(result.value)} (${result.ratio.toFixed(2)} x)`)
      .join(", "),
    targets.map(({ text }) => text).join("; "),
    targets.map(verdict).join("; "),
  ];
}

function verdict({ met, reached }: Target): string {
  if (met === null || reached === null) return "not measured";
  return `${met ? "yes" : "NO"} (${short(reached)})`;
}

function short(value: number): string {
  return Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toPrecision(3)));
}

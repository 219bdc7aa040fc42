import type { MemoryEstimate, MemoryPart, MemoryPhase } from "./memory-types.js";

/** The parts in words, in the order in which a table lists them. @internal */
export const PART_TITLES: Readonly<Record<MemoryPart, string>> = {
  weights: "weights",
  packedWeights: "packed weights",
  frozenCopy: "frozen copy",
  gradients: "gradients",
  moments: "moments",
  rotaryTables: "rotary tables",
  activations: "activations",
  head: "head",
  scratch: "scratch",
  cache: "cache",
  decoder: "decoder",
  kept: "kept for the next pass",
  trajectories: "trajectories",
  staging: "staging",
  runtime: "runtime",
};

/** @internal */
export function formatBytes(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 23 ? 1 : 0)} MiB`;
}

/**
 * An estimate as a table of text: a line per part, a column per phase.
 *
 * @param estimate - Of {@link estimateMemory}.
 */
export function formatEstimate(estimate: MemoryEstimate): string {
  const phases = Object.entries(estimate.phases) as [
    MemoryPhase,
    MemoryEstimate["phases"]["load"] & object,
  ][];
  const cell = (bytes: number | undefined) => (bytes === undefined || bytes === 0 ? "" : formatBytes(bytes));
  const rows = (Object.keys(PART_TITLES) as MemoryPart[])
    .filter((part) => (estimate.parts[part] ?? 0) > 0)
    .map((part) => [PART_TITLES[part], ...phases.map(([, { parts }]) => cell(parts[part]))]);
  const millions = (estimate.parameters / 1e6).toFixed(1);
  const lines = [
    [`${millions} M parameters, ${estimate.settings.compute}`, ...phases.map(([phase]) => phase)],
    ...rows,
    ["all", ...phases.map(([, { bytes }]) => formatBytes(bytes))],
  ];
  const widths = (lines[0] as string[]).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const table = lines.map((line) =>
    line
      .map((text, i) => (i === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart((widths[i] ?? 0) + 2)))
      .join("")
      .trimEnd(),
  );
  const { phase, bytes } = estimate.peak;
  return [...table, `Peak: ${phase}, ${formatBytes(bytes)}`].join("\n");
}

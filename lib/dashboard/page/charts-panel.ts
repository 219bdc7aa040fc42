import type { MeasureName } from "../measures.js";
import type { CompareReply, EvaluationPoints, RunCurves, Values } from "../messages.js";
import { Chart, type Line, PALETTE, type Plot, smoothed } from "./chart.js";
import { CHART_PLAN, type PlannedChart, TIME_PARTS } from "./chart-plan.js";
import { el, fill, foreign } from "./dom.js";
import type { DrawnRun } from "./drawn-run.js";
import { duration, number } from "./format.js";

/** Steps over which the split of the time is taken. */
const SPLIT_STEPS = 20;

/** Charts of one run, or of several laid over each other. */
export class ChartsPanel {
  readonly element = el("div", { class: "charts-panel" });
  readonly #charts = new Map<string, Chart>();
  #headings = "";

  /**
   * Draws.
   *
   * @param runs - In the order of their colours.
   * @param compare - Differences to the base run; none for one run.
   * @param smoothing - 0 to 1.
   * @param over - What the intervals are over.
   */
  update(
    runs: readonly DrawnRun[],
    compare: CompareReply | undefined,
    smoothing: number,
    over: keyof typeof INTERVALS,
  ): void {
    const sections: { heading: string; plots: Plot[]; extra?: HTMLElement }[] = [
      { heading: "Exact match", plots: evaluationPlots(runs, compare, INTERVALS[over]) },
      ...CHART_PLAN.map(({ heading, charts }) => ({
        heading,
        plots: charts.flatMap((chart) => measurePlot(chart, runs, smoothing) ?? []),
        ...(heading === "Speed" && { extra: timeSplit(runs) }),
      })),
    ].filter(({ plots }) => plots.length > 0);
    const names = JSON.stringify(
      sections.map(({ heading, plots }) => [heading, plots.map(({ title }) => title)]),
    );
    if (names !== this.#headings) this.#lay(sections, names);
    for (const { heading, plots, extra } of sections) {
      for (const plot of plots) this.#charts.get(`${heading} ${plot.title}`)?.update(plot);
      const place = this.element.querySelector(".time-split");
      if (extra && place) place.replaceWith(extra);
    }
  }

  #lay(sections: readonly { heading: string; plots: Plot[]; extra?: HTMLElement }[], names: string): void {
    this.destroy();
    this.#headings = names;
    fill(
      this.element,
      ...sections.map(({ heading, plots, extra }) =>
        el(
          "section",
          { class: "chart-section" },
          el("h3", {}, heading),
          el(
            "div",
            { class: "chart-grid" },
            ...plots.map((plot) => {
              const chart = new Chart();
              this.#charts.set(`${heading} ${plot.title}`, chart);
              return chart.element;
            }),
            extra,
          ),
        ),
      ),
      sections.length === 0 &&
        el("p", { class: "empty" }, "Nothing is logged yet. Curves appear with the first step."),
    );
  }

  /** In the colours of the theme as it is now. */
  redraw(): void {
    for (const chart of this.#charts.values()) chart.redraw();
  }

  /** Lets go of the charts. */
  destroy(): void {
    for (const chart of this.#charts.values()) chart.destroy();
    this.#charts.clear();
    this.#headings = "";
  }
}

/** What stands with the charts of evaluations, by what their intervals are over. */
const INTERVALS = {
  questions: {
    share: "Of the evaluation questions. Bands are 95 % Wilson intervals over the questions.",
    difference:
      "Mean difference of exact match, paired by question, with 95 % t intervals. A band above zero is a gain.",
  },
  seeds: {
    share: "Mean over the seeds. Bands are 95 % t intervals over the seeds.",
    difference:
      "Mean difference of exact match, paired by seed, with 95 % t intervals. A band above zero is a gain.",
  },
} as const;

function evaluationPlots(
  runs: readonly DrawnRun[],
  compare: CompareReply | undefined,
  help: { share: string; difference: string },
): Plot[] {
  const modes = [...new Set(runs.flatMap(({ curves }) => curves.evaluations.map(({ mode }) => mode)))];
  const many = runs.length > 1;
  return modes.flatMap((mode): Plot[] => {
    const of = (curves: RunCurves): EvaluationPoints | undefined =>
      curves.evaluations.find((points) => points.mode === mode);
    const lines = runs.flatMap(({ curves, name, color }): Line[] => {
      const points = of(curves);
      if (points === undefined) return [];
      const { x, exactMatch: y, low, high } = points;
      return [{ run: many ? name : "", label: "", color, dash: 0, x, y, low, high }];
    });
    const plots: Plot[] = [
      {
        title: `Exact match, ${mode}`,
        help: help.share,
        xLabel: "steps done",
        lines,
      },
    ];
    const differences = (compare?.pairs ?? []).flatMap(({ run, differences }): Line[] => {
      const drawn = runs.find(({ summary }) => summary.id === run);
      const points = differences.find((pair) => pair.mode === mode);
      if (drawn === undefined || points === undefined) return [];
      return [
        {
          run: drawn.name,
          label: "",
          color: drawn.color,
          dash: 0,
          x: points.x,
          y: points.mean,
          low: points.low,
          high: points.high,
        },
      ];
    });
    if (differences.length > 0) {
      const base = runs.find(({ summary }) => summary.id === compare?.base)?.name ?? "";
      plots.push({
        title: `Difference to ${base}, ${mode}`,
        help: help.difference,
        xLabel: "steps done",
        lines: differences,
        zero: true,
      });
    }
    return plots;
  });
}

function measurePlot(plan: PlannedChart, runs: readonly DrawnRun[], smoothing: number): Plot | undefined {
  const many = runs.length > 1;
  const lines = runs.flatMap(({ curves, name, color }) =>
    plan.lines.flatMap(({ label, measure }, dash): Line[] => {
      const values = curves.measures[measure];
      if (values === undefined || values.every((value) => value === null)) return [];
      const run = many ? name : "";
      // One run has the colours to itself.
      const place = many ? color : color + dash;
      return [
        {
          run,
          label,
          color: place,
          dash: many ? dash : 0,
          ...presentPoints(curves.steps, smoothed(values, smoothing)),
        },
      ];
    }),
  );
  if (lines.length === 0) return undefined;
  const { title, unit, help } = plan;
  return { title, help, xLabel: "step", lines, ...(unit !== undefined && { unit }) };
}

/** Some measures are taken every so many steps. */
function presentPoints(steps: readonly number[], values: Values): Pick<Line, "x" | "y"> {
  const places = [...values.keys()].filter((i) => values[i] !== null);
  return { x: places.map((i) => steps[i] as number), y: places.map((i) => values[i] as number) };
}

/** Where the time of a step goes: one bar per run. */
function timeSplit(runs: readonly DrawnRun[]): HTMLElement {
  const rows = runs.flatMap(({ curves, name }) => {
    const parts = TIME_PARTS.map(({ label, measure }) => ({ label, seconds: recentMean(curves, measure) }));
    const total = parts.reduce((sum, { seconds }) => sum + seconds, 0);
    return total === 0 ? [] : [{ name, parts, total }];
  });
  return el(
    "figure",
    { class: "chart time-split" },
    el(
      "figcaption",
      {},
      el("h4", {}, "Time of a step", el("small", {}, ` mean of the last ${SPLIT_STEPS} steps`)),
      el(
        "ul",
        { class: "legend" },
        ...TIME_PARTS.map(({ label }, i) => {
          const swatch = el("span", { class: "swatch block" });
          swatch.style.setProperty("--swatch", `var(--part-${i})`);
          return el("li", {}, swatch, label);
        }),
      ),
    ),
    ...rows.map(({ name, parts, total }) =>
      el(
        "div",
        { class: "split-row" },
        el("div", { class: "split-name" }, foreign(name), el("span", {}, duration(total))),
        el(
          "div",
          {
            class: "split-bar",
            role: "img",
            "aria-label": parts
              .map(({ label, seconds }) => `${label} ${number((100 * seconds) / total, 2)} %`)
              .join(", "),
          },
          ...parts.map(({ label, seconds }, i) => {
            const piece = el("span", {
              title: `${label}: ${duration(seconds)}, ${number((100 * seconds) / total, 2)} %`,
            });
            piece.style.setProperty("flex-grow", String(seconds / total));
            piece.style.setProperty("--swatch", `var(--part-${i})`);
            return piece;
          }),
        ),
      ),
    ),
  );
}

function recentMean({ measures }: RunCurves, measure: MeasureName): number {
  const values = (measures[measure] ?? []).slice(-SPLIT_STEPS).filter((value) => value !== null);
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Colours of runs by their place in the overview. */
export function colorOf(place: number): number {
  return place % PALETTE;
}

/** Names of runs without the folders that all of them have in common. */
export function shortNames(ids: readonly string[]): Map<string, string> {
  const folders = ids.map((id) => id.split("/").slice(0, -1));
  let common = 0;
  while (
    folders.length > 0 &&
    folders.every((parts) => parts.length > common && parts[common] === folders[0]?.[common])
  )
    common++;
  return new Map(ids.map((id) => [id, id.split("/").slice(common).join("/")]));
}

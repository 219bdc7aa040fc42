import uPlot from "uplot";
import type { Values } from "../messages.js";
import { type Child, el, fill, foreign } from "./dom.js";
import { number } from "./format.js";

/** A line of a chart with its values. */
export interface Line {
  /** Of the run; foreign text. */
  run: string;
  label: string;
  /** Place in the palette. */
  color: number;
  /** Place among the lines of a run: later ones are dashed. */
  dash: number;
  x: readonly number[];
  y: Values;
  /** An interval around it. */
  low?: Values;
  high?: Values;
}

/** What a chart shows. */
export interface Plot {
  title: string;
  unit?: string;
  help: string;
  xLabel: string;
  lines: Line[];
  /** Draws a line at zero: differences are seen against it. */
  zero?: boolean;
}

const HEIGHT = 190;
const DASHES: number[][] = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

/** The colours of runs, one after the other. */
export const PALETTE = 8;

/** A colour of the theme as it is now, as canvases read it. */
function themed(name: string, alpha = 1): string {
  const probe = el("i");
  probe.style.setProperty("color", `var(${name})`);
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

/** A chart with its title, legend and values under the cursor. */
export class Chart {
  readonly element: HTMLElement;
  readonly #canvas = el("div", { class: "canvas", role: "img" });
  readonly #legend = el("ul", { class: "legend" });
  readonly #title = el("h4");
  readonly #observer: ResizeObserver;
  #plot: Plot | undefined;
  #chart: uPlot | undefined;
  #shape = "";
  #values: HTMLElement[] = [];

  constructor() {
    this.element = el(
      "figure",
      { class: "chart" },
      el("figcaption", {}, this.#title, this.#legend),
      this.#canvas,
    );
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(this.#canvas);
  }

  /** Shows something else, or the same with more points. */
  update(plot: Plot): void {
    this.#plot = plot;
    fill(this.#title, plot.title, plot.unit && el("small", {}, ` ${plot.unit}`));
    this.#title.title = plot.help;
    this.#draw();
  }

  /** Draws anew in the colours of the theme. */
  redraw(): void {
    this.#shape = "";
    this.#draw();
  }

  /** Lets go of everything. */
  destroy(): void {
    this.#observer.disconnect();
    this.#chart?.destroy();
    this.#chart = undefined;
  }

  #resize(): void {
    const { clientWidth } = this.#canvas;
    if (clientWidth === 0) return;
    if (this.#chart === undefined) this.#draw();
    else if (this.#chart.width !== clientWidth) this.#chart.setSize({ width: clientWidth, height: HEIGHT });
  }

  #draw(): void {
    const plot = this.#plot;
    const width = this.#canvas.clientWidth;
    if (plot === undefined || width === 0) return;
    const data = joined(plot.lines);
    const shape = JSON.stringify(
      plot.lines.map(({ run, label, color, dash, low }) => [run, label, color, dash, low !== undefined]),
    );
    this.#describe(plot);
    if (this.#chart !== undefined && shape === this.#shape) {
      this.#chart.setData(data);
      this.#showValues(this.#chart.cursor.idx ?? null);
      return;
    }
    this.#shape = shape;
    this.#chart?.destroy();
    this.#fillLegend(plot);
    this.#chart = new uPlot(this.#options(plot, width), data, this.#canvas);
  }

  #describe(plot: Plot): void {
    const ends = plot.lines.map(
      ({ run, label, y }) => `${run} ${label}: ${number(y.findLast((value) => value !== null) ?? null)}`,
    );
    this.#canvas.setAttribute(
      "aria-label",
      `${plot.title}. ${plot.help} Last values: ${ends.slice(0, 12).join("; ")}.`,
    );
  }

  #fillLegend({ lines }: Plot): void {
    this.#values = lines.map(() => el("b"));
    const runs = [...new Set(lines.map(({ run }) => run))];
    const labels = [...new Map(lines.map(({ label, dash }) => [label, dash]))];
    // Every line of every run by name would be longer than the chart is high.
    const isGrid = runs.length > 1 && labels.length > 1;
    const values = (of: (line: Line) => boolean) =>
      lines.flatMap((line, i): Child[] => (of(line) ? [this.#values[i]] : []));
    const named = isGrid
      ? [
          ...labels.map(([label, dash]) => el("li", {}, swatch("var(--muted)", dash), label)),
          ...runs.map((run) => {
            const color = lines.find((line) => line.run === run)?.color ?? 0;
            const shown = values((line) => line.run === run).flatMap((value, i) =>
              i === 0 ? [value] : ["/", value],
            );
            return el("li", { class: "grid-run" }, swatch(runColor(color), 0), foreign(run), ...shown);
          }),
        ]
      : lines.map(({ run, label, color, dash }, i) => {
          const name = [run, label].filter((part) => part !== "").join(" · ");
          return el("li", {}, swatch(runColor(color), dash), foreign(name), this.#values[i]);
        });
    fill(this.#legend, ...named);
    this.#showValues(null);
  }

  /** Under the cursor, or the last ones. */
  #showValues(index: number | null): void {
    for (const [i, line] of (this.#plot?.lines ?? []).entries()) {
      const place = this.#values[i];
      if (place === undefined) continue;
      const x = index === null ? undefined : this.#chart?.data[0][index];
      const at = x === undefined ? -1 : line.x.indexOf(x);
      const value = x === undefined ? line.y.findLast((y) => y !== null) : line.y[at];
      place.textContent = number(value ?? null);
    }
  }

  #options({ lines, xLabel, zero }: Plot, width: number): uPlot.Options {
    const grid = { stroke: themed("--grid"), width: 1 };
    const axis: uPlot.Axis = {
      stroke: themed("--muted"),
      grid,
      ticks: { show: false },
      font: `11px ${getComputedStyle(document.body).fontFamily}`,
    };
    const series: uPlot.Series[] = [{ label: xLabel }];
    const bands: uPlot.Band[] = [];
    for (const { color, dash, x, low } of lines) {
      const stroke = themed(`--run-${color % PALETTE}`);
      series.push({
        stroke,
        width: 2,
        dash: DASHES[dash % DASHES.length] as number[],
        spanGaps: true,
        points: { show: x.length < 12, size: 5, fill: stroke },
      });
      if (low === undefined) continue;
      const at = series.length;
      const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
      series.push(edge, edge);
      bands.push({ series: [at + 1, at], fill: themed(`--run-${color % PALETTE}`, 0.15) });
    }
    return {
      width,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      cursor: { sync: { key: "steps" }, drag: { x: true, y: false }, points: { size: 6 } },
      scales: {
        x: { time: false },
        y: { range: (_chart, low, high) => padded(low, high, zero === true) },
      },
      axes: [
        {
          ...axis,
          size: 28,
          space: 50,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000],
        },
        { ...axis, size: 46, space: 34, values: (_chart, ticks) => ticks.map((tick) => number(tick)) },
      ],
      hooks: {
        setCursor: [(chart) => this.#showValues(chart.cursor.idx ?? null)],
        draw: zero ? [(chart) => drawZero(chart, themed("--muted"))] : [],
      },
    };
  }
}

function runColor(color: number): string {
  return `var(--run-${color % PALETTE})`;
}

function swatch(color: string, dash: number): HTMLElement {
  const element = el("span", { class: `swatch dash-${dash % DASHES.length}` });
  element.style.setProperty("--swatch", color);
  return element;
}

/** A range that leaves room, also where all values are equal or there is none. */
function padded(low: number | null, high: number | null, zero: boolean): [number, number] {
  const [from, to] = [
    Math.min(low ?? 0, zero ? 0 : Number.POSITIVE_INFINITY),
    Math.max(high ?? 1, zero ? 0 : Number.NEGATIVE_INFINITY),
  ];
  const room = (to - from) * 0.06 || Math.abs(to) * 0.1 || 1;
  // What cannot be negative is not drawn below zero.
  return [from >= 0 && from - room < 0 ? 0 : from - room, to + room];
}

function drawZero({ ctx, bbox, valToPos }: uPlot, color: string): void {
  const y = Math.round(valToPos(0, "y", true));
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

/** All lines over the union of their x. */
function joined(lines: readonly Line[]): uPlot.AlignedData {
  const xs = [...new Set(lines.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const spread = (x: readonly number[], values: Values) => {
    const column = new Array<number | null>(xs.length).fill(null);
    for (const [i, at] of x.entries()) column[place.get(at) as number] = values[i] ?? null;
    return column;
  };
  return [
    xs,
    ...lines.flatMap(({ x, y, low, high }) =>
      low === undefined || high === undefined
        ? [spread(x, y)]
        : [y, low, high].map((values) => spread(x, values)),
    ),
  ] as uPlot.AlignedData;
}

/** Exponential smoothing, as TensorBoard's: 0 leaves the values as they are. The start is not pulled to zero. */
export function smoothed(values: Values, factor: number): Values {
  if (factor === 0) return values;
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * factor + value * (1 - factor);
    weight = weight * factor + (1 - factor);
    return sum / weight;
  });
}

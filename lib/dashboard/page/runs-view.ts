import type { CompareReply, RunCurves, RunSummary, RunsReply } from "../messages.js";
import { ChartsPanel, colorOf, shortNames } from "./charts-panel.js";
import { el, fill, foreign } from "./dom.js";
import type { DrawnRun } from "./drawn-run.js";
import { duration, number, share } from "./format.js";
import { formatRoute, replaceRoute } from "./route.js";
import { averageSeeds, haveSeeds } from "./seed-means.js";
import type { Source } from "./source.js";
import { verdictBadge } from "./verdict-badge.js";
import type { View } from "./view.js";

/** Runs that are drawn at first. */
const DRAWN_AT_FIRST = 6;

/** All runs in a table, and the curves of the chosen ones laid over each other. */
export class RunsView implements View {
  readonly element = el("div", { class: "view runs-view" });
  readonly title = "Runs";
  readonly #source: Source;
  readonly #table = el("div", { class: "runs" });
  readonly #controls = el("div", { class: "controls" });
  readonly #panel = new ChartsPanel();
  readonly #curves = new Map<string, RunCurves>();
  #reply: RunsReply | undefined;
  #chosen: Set<string> | undefined;
  #base: string | undefined;
  #smoothing = 0;
  #averaged: boolean;
  #shown = "";
  #controlled = "";

  constructor(source: Source, parameters: URLSearchParams) {
    this.#source = source;
    const chosen = parameters.getAll("run");
    if (chosen.length > 0) this.#chosen = new Set(chosen);
    this.#base = parameters.get("base") ?? undefined;
    this.#averaged = parameters.get("seeds") === "mean";
    const smoothing = Number(parameters.get("smooth"));
    if (smoothing > 0 && smoothing < 1) this.#smoothing = smoothing;
    fill(this.element, el("h1", {}, "Runs"), this.#table, this.#controls, this.#panel.element);
  }

  async refresh(): Promise<void> {
    const reply = await this.#source.runs();
    this.#reply = reply;
    this.#chosen ??= new Set(newest(reply.runs).map(({ id }) => id));
    this.#fillTable(reply);
    await this.#draw();
  }

  redraw(): void {
    this.#panel.redraw();
  }

  destroy(): void {
    this.#panel.destroy();
  }

  #fillTable({ runs, folder }: RunsReply): void {
    const shape = JSON.stringify([runs, [...(this.#chosen ?? [])]]);
    if (shape === this.#shown) return;
    this.#shown = shape;
    if (runs.length === 0) {
      fill(
        this.#table,
        el(
          "div",
          { class: "empty" },
          el("p", {}, "No run yet in ", foreign(folder), "."),
          el(
            "p",
            {},
            "A trainer with ",
            el("code", {}, "runFolder"),
            " writes one. It appears here by itself.",
          ),
        ),
      );
      return;
    }
    const focused =
      document.activeElement instanceof HTMLInputElement ? document.activeElement.value : undefined;
    const head = ["", "Run", "Signal", "Progress", "Exact match", "Reward", "Time", ""];
    fill(
      this.#table,
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, "Runs"),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...head.map((name) =>
              el("th", { scope: "col" }, name || el("span", { class: "hidden" }, "Choose")),
            ),
          ),
        ),
        el("tbody", {}, ...runs.map((run, place) => this.#row(run, place))),
      ),
    );
    if (focused !== undefined) {
      for (const box of this.#table.querySelectorAll("input")) if (box.value === focused) box.focus();
    }
  }

  #row(run: RunSummary, place: number): HTMLElement {
    const box = el("input", {
      type: "checkbox",
      value: run.id,
      "aria-label": `Draw ${run.id}`,
      on: { change: (event) => this.#choose(run.id, (event.target as HTMLInputElement).checked) },
    });
    box.checked = this.#chosen?.has(run.id) ?? false;
    box.style.setProperty("--swatch", `var(--run-${colorOf(place)})`);
    const progress = run.steps === null ? null : Math.min(1, run.stepsDone / Math.max(1, run.steps));
    const bar = el("span", { class: "bar" }, el("span"));
    (bar.firstElementChild as HTMLElement).style.setProperty("width", `${100 * (progress ?? 0)}%`);
    const details = [run.method, run.seed === "" ? "" : `seed ${run.seed}`, run.policy].filter(
      (part) => part !== "",
    );
    return el(
      "tr",
      {},
      el("td", { class: "choose" }, box),
      el(
        "th",
        { scope: "row" },
        el("a", { href: formatRoute("run", { run: run.id }) }, foreign(run.id)),
        el("small", {}, foreign(details.join(" · "))),
        ...run.problems.map((problem) => el("small", { class: "problem" }, foreign(problem))),
      ),
      el("td", { "data-label": "Signal" }, verdictBadge(run.verdict)),
      el(
        "td",
        { "data-label": "Progress" },
        el(
          "span",
          {},
          `${run.stepsDone}${run.steps === null ? "" : ` of ${run.steps}`}`,
          run.live && el("span", { class: "live" }, "live"),
        ),
        progress !== null && bar,
      ),
      el(
        "td",
        { "data-label": "Exact match", class: "scores" },
        ...run.exactMatch.map(({ mode, first, last, low, high }) =>
          el(
            "div",
            { title: low === null ? "" : `95 % interval ${share(low)} to ${share(high)}` },
            el("span", { class: "mode" }, foreign(mode)),
            el("span", { class: "from" }, `${share(first)} → `),
            el("b", {}, share(last)),
          ),
        ),
        run.exactMatch.length === 0 && "–",
      ),
      el("td", { "data-label": "Reward" }, number(run.reward)),
      el("td", { "data-label": "Time" }, duration(run.milliseconds / 1000)),
      el(
        "td",
        { class: "go" },
        el(
          "a",
          { href: formatRoute("trajectories", { run: run.id }), "aria-label": `Trajectories of ${run.id}` },
          "Trajectories",
        ),
      ),
    );
  }

  #choose(id: string, chosen: boolean): void {
    if (chosen) this.#chosen?.add(id);
    else this.#chosen?.delete(id);
    this.#remember();
    void this.#draw();
  }

  #remember(): void {
    const parameters = new URLSearchParams([...(this.#chosen ?? [])].map((id) => ["run", id]));
    if (this.#base !== undefined) parameters.set("base", this.#base);
    if (this.#smoothing > 0) parameters.set("smooth", String(this.#smoothing));
    if (this.#averaged) parameters.set("seeds", "mean");
    replaceRoute("runs", parameters);
  }

  async #draw(): Promise<void> {
    const { runs = [] } = this.#reply ?? {};
    const chosen = runs.filter(({ id }) => this.#chosen?.has(id));
    const names = shortNames(runs.map(({ id }) => id));
    const drawn: DrawnRun[] = await Promise.all(
      chosen.map(async (summary) => ({
        summary,
        curves: await this.#curvesOf(summary),
        name: names.get(summary.id) ?? summary.id,
        color: colorOf(runs.indexOf(summary)),
      })),
    );
    const base = chosen.find(({ id }) => id === this.#base)?.id ?? chosen[0]?.id;
    const compare: CompareReply | undefined =
      base !== undefined && chosen.length > 1
        ? await this.#source.compare(
            base,
            chosen.map(({ id }) => id),
          )
        : undefined;
    this.#fillControls(drawn, base, compare);
    if (this.#averaged && haveSeeds(drawn)) {
      const means = averageSeeds(drawn, base);
      this.#panel.update(means.runs, means.compare, this.#smoothing, "seeds");
    } else this.#panel.update(drawn, compare, this.#smoothing, "questions");
  }

  async #curvesOf({ id, revision }: RunSummary): Promise<RunCurves> {
    const known = this.#curves.get(id);
    if (known?.revision === revision) return known;
    const curves = await this.#source.curves(id);
    this.#curves.set(id, curves);
    return curves;
  }

  #fillControls(
    drawn: readonly DrawnRun[],
    base: string | undefined,
    compare: CompareReply | undefined,
  ): void {
    const shape = JSON.stringify([
      drawn.map(({ name }) => name),
      base,
      compare?.pairs.map(({ reason }) => reason),
    ]);
    if (shape === this.#controlled) return;
    this.#controlled = shape;
    const slider = el("input", {
      type: "range",
      min: 0,
      max: 0.95,
      step: 0.05,
      on: {
        input: (event) => {
          this.#smoothing = Number((event.target as HTMLInputElement).value);
          this.#remember();
          void this.#draw();
        },
      },
    });
    slider.value = String(this.#smoothing);
    const bases = el(
      "select",
      {
        on: {
          change: (event) => {
            this.#base = (event.target as HTMLSelectElement).value;
            this.#remember();
            void this.#draw();
          },
        },
      },
      ...drawn.map(({ summary, name }) =>
        el("option", { value: summary.id, selected: summary.id === base }, name),
      ),
    );
    const means = el("input", {
      type: "checkbox",
      on: {
        change: (event) => {
          this.#averaged = (event.target as HTMLInputElement).checked;
          this.#remember();
          void this.#draw();
        },
      },
    });
    means.checked = this.#averaged;
    const unpaired = (compare?.pairs ?? []).filter(({ reason }) => reason !== null).length;
    fill(
      this.#controls,
      drawn.length > 0 && el("label", {}, "Smoothing", slider),
      drawn.length > 1 && el("label", {}, "Compare with", bases),
      haveSeeds(drawn) && el("label", {}, means, "Mean over seeds"),
      unpaired > 0 &&
        el(
          "p",
          { class: "note" },
          `${unpaired} of the runs cannot be paired with it: their evaluations are not on the same questions at the same steps.`,
        ),
    );
  }
}

function newest(runs: readonly RunSummary[]): RunSummary[] {
  return [...runs].sort((a, b) => a.idleSeconds - b.idleSeconds).slice(0, DRAWN_AT_FIRST);
}

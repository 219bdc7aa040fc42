import type { RunCurves, RunSummary } from "../messages.js";
import { ChartsPanel, colorOf } from "./charts-panel.js";
import { el, fill, foreign } from "./dom.js";
import { duration, number, share } from "./format.js";
import { formatRoute } from "./route.js";
import type { Source } from "./source.js";
import { verdictBadge, verdictList } from "./verdict-badge.js";
import type { View } from "./view.js";

/** One run: its figures, the verdict on its signal, its curves and its settings. */
export class RunView implements View {
  readonly element = el("div", { class: "view run-view" });
  readonly title: string;
  readonly #source: Source;
  readonly #id: string;
  readonly #head = el("div");
  readonly #panel = new ChartsPanel();
  readonly #settings = el("pre");
  #curves: RunCurves | undefined;
  #shown = "";

  constructor(source: Source, parameters: URLSearchParams) {
    this.#source = source;
    this.#id = parameters.get("run") ?? "";
    this.title = this.#id;
    const settings = el(
      "details",
      {
        class: "settings",
        on: { toggle: () => void this.#fillSettings() },
      },
      el("summary", {}, "Settings"),
      this.#settings,
    );
    fill(this.element, this.#head, this.#panel.element, settings);
  }

  async refresh(): Promise<void> {
    const { runs } = await this.#source.runs();
    const summary = runs.find(({ id }) => id === this.#id);
    if (summary === undefined) throw new Error("There is no such run in the folders that are served.");
    this.#fillHead(summary);
    if (this.#curves?.revision !== summary.revision) this.#curves = await this.#source.curves(this.#id);
    const color = colorOf(runs.indexOf(summary));
    this.#panel.update([{ summary, curves: this.#curves, name: this.#id, color }], undefined, 0, "questions");
  }

  redraw(): void {
    this.#panel.redraw();
  }

  destroy(): void {
    this.#panel.destroy();
  }

  #fillHead(run: RunSummary): void {
    const shape = JSON.stringify({ ...run, idleSeconds: Math.floor(run.idleSeconds / 60) });
    if (shape === this.#shown) return;
    this.#shown = shape;
    const tiles: [string, Node | string][] = [
      ["Steps", `${run.stepsDone}${run.steps === null ? "" : ` of ${run.steps}`}`],
      ...run.exactMatch.map(({ mode, first, last, low, high }): [string, Node] => [
        `Exact match, ${mode}`,
        el(
          "span",
          {},
          share(last),
          el("small", {}, low === null ? "" : ` ${share(low)} – ${share(high)}`, ` from ${share(first)}`),
        ),
      ]),
      ["Reward", number(run.reward)],
      ["Training time", duration(run.milliseconds / 1000)],
      [
        "Last logged",
        run.live ? el("span", {}, el("span", { class: "live" }, "live")) : `${duration(run.idleSeconds)} ago`,
      ],
    ];
    fill(
      this.#head,
      el(
        "div",
        { class: "heading" },
        el("h1", {}, foreign(run.id)),
        el("a", { class: "button", href: formatRoute("trajectories", { run: run.id }) }, "Trajectories"),
      ),
      el(
        "p",
        { class: "details" },
        foreign(
          [run.method, run.seed === "" ? "" : `seed ${run.seed}`, run.policy]
            .filter((part) => part !== "")
            .join(" · "),
        ),
      ),
      ...run.problems.map((problem) => el("p", { class: "problem" }, foreign(problem))),
      el(
        "dl",
        { class: "tiles" },
        ...tiles.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
      ),
      el(
        "section",
        { class: "verdict" },
        el("h2", {}, "Training signal ", verdictBadge(run.verdict)),
        verdictList(run.verdict),
      ),
    );
  }

  async #fillSettings(): Promise<void> {
    if (this.#settings.textContent !== "") return;
    fill(this.#settings, foreign(await this.#source.config(this.#id)));
  }
}

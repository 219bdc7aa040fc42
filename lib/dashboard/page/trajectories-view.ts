import type { RowsReply, TrajectoryRow } from "../messages.js";
import { formatRowQuery, parseRowQuery, type RowQuery } from "../row-query.js";
import { announce, el, fill, foreign } from "./dom.js";
import { count } from "./format.js";
import { QueryControls } from "./query-controls.js";
import { formatRoute, replaceRoute } from "./route.js";
import type { Source } from "./source.js";
import { hideTip } from "./token-strip.js";
import { stateOf, trajectoryPanel } from "./trajectory-panel.js";
import { rowElement } from "./trajectory-row.js";
import type { View } from "./view.js";
import { VirtualList } from "./virtual-list.js";

const ROW_HEIGHT = 62;

/** The trajectories of a run: a list with filters, and the chosen one beside it. */
export class TrajectoriesView implements View {
  readonly element = el("div", { class: "view trajectories-view" });
  readonly title: string;
  readonly #source: Source;
  readonly #run: string;
  readonly #list: VirtualList<TrajectoryRow>;
  readonly #status = el("p", { class: "list-status" });
  readonly #panel = el("div", { class: "panel", tabindex: -1 });
  readonly #controls: QueryControls;
  #id: string | null;
  #revision = "";
  #siblings: string[] = [];
  #wanted = 0;
  #opening: Promise<unknown> = Promise.resolve();

  constructor(source: Source, parameters: URLSearchParams) {
    this.#source = source;
    this.#run = parameters.get("run") ?? "";
    this.title = `Trajectories of ${this.#run}`;
    this.#controls = new QueryControls(parseRowQuery(parameters), (query) => void this.#ask(query));
    this.#id = parameters.get("id");
    this.#list = new VirtualList<TrajectoryRow>(
      {
        fetch: (offset, limit) => this.#fetch(offset, limit),
        render: (row) => rowElement(row),
        choose: (row) => void this.#open(row.id, false),
      },
      ROW_HEIGHT,
      "Trajectories",
    );
    fill(
      this.element,
      el(
        "div",
        { class: "heading" },
        el("h1", {}, "Trajectories"),
        el("a", { href: formatRoute("run", { run: this.#run }) }, foreign(this.#run)),
      ),
      el(
        "div",
        { class: "split" },
        el("div", { class: "list-pane" }, this.#controls.element, this.#status, this.#list.element),
        this.#panel,
      ),
    );
    this.#showNothing();
  }

  async refresh(): Promise<void> {
    const locate = this.#id ?? undefined;
    const reply = await this.#source.rows(this.#run, this.#controls.query, 0, 1, locate);
    this.#describe(reply);
    if (reply.revision === this.#revision && this.#list.matched === reply.matched) return;
    const first = this.#revision === "" && this.#list.matched === 0;
    this.#revision = reply.revision;
    await this.#list.reload();
    if (!first) return;
    if (reply.located !== null) this.#list.mark(reply.located);
    if (this.#id !== null) await this.#open(this.#id, false);
  }

  follow(parameters: URLSearchParams): boolean {
    const id = parameters.get("id");
    if (parameters.get("run") !== this.#run) return false;
    if (JSON.stringify(parseRowQuery(parameters)) !== JSON.stringify(this.#controls.query)) return false;
    if (id !== this.#id) {
      if (id === null) this.#close();
      else void this.#open(id, true);
    }
    return true;
  }

  key({ key }: KeyboardEvent): boolean {
    switch (key) {
      case "j":
      case "ArrowDown":
        this.#move(1);
        return true;
      case "k":
      case "ArrowUp":
        this.#move(-1);
        return true;
      case "l":
      case "ArrowRight":
        return this.#sibling(1);
      case "h":
      case "ArrowLeft":
        return this.#sibling(-1);
      case "/":
        this.#controls.focus();
        return true;
      case "Escape":
        if (this.#id === null) return false;
        this.#close();
        return true;
      default:
        return false;
    }
  }

  destroy(): void {
    this.#controls.destroy();
    this.#list.destroy();
    hideTip();
  }

  async #ask(query: RowQuery): Promise<void> {
    this.#remember();
    this.#list.mark(undefined);
    this.#list.top();
    const reply = await this.#source.rows(this.#run, query, 0, 1, this.#id ?? undefined);
    if (query !== this.#controls.query) return;
    this.#describe(reply);
    this.#revision = reply.revision;
    await this.#list.reload();
    if (reply.located !== null) this.#list.mark(reply.located);
    announce(`${count(reply.matched)} trajectories`);
  }

  async #fetch(offset: number, limit: number) {
    const reply = await this.#source.rows(this.#run, this.#controls.query, offset, limit);
    return { rows: reply.rows, matched: reply.matched };
  }

  #describe({ total, matched, indexed, unreadable }: RowsReply): void {
    const parts = [
      matched === total
        ? `${count(total)} trajectories`
        : `${count(matched)} of ${count(total)} trajectories`,
    ];
    if (indexed < 1) parts.push(`reading the file, ${Math.floor(100 * indexed)} %`);
    if (unreadable > 0) parts.push(`${count(unreadable)} lines are left out`);
    if (total === 0 && indexed === 1) parts.push("none is recorded yet");
    const text = parts.join(" · ");
    if (this.#status.textContent !== text) this.#status.textContent = text;
  }

  #remember(): void {
    replaceRoute("trajectories", this.#parameters(this.#id));
  }

  #parameters(id: string | null): URLSearchParams {
    const parameters = formatRowQuery(this.#controls.query);
    parameters.set("run", this.#run);
    if (id !== null) parameters.set("id", id);
    return parameters;
  }

  /** A row's question may be cut. */
  #sameQuestion(question: string): URLSearchParams {
    const text = question.replace(/…$/, "");
    const parameters = formatRowQuery({ filters: [], order: "first", text, step: null });
    parameters.set("run", this.#run);
    return parameters;
  }

  /** Behind whatever is being opened: only then is its place in the list known. */
  #move(by: number): void {
    this.#opening = this.#opening.then(() => this.#list.move(by)).catch(() => undefined);
  }

  #sibling(by: number): boolean {
    const at = this.#siblings.indexOf(this.#id ?? "");
    const next = at < 0 ? undefined : this.#siblings[at + by];
    if (next !== undefined) this.#opening = this.#open(next, true);
    return at >= 0;
  }

  /** @param search - Whether its place in the list is to be looked for. */
  async #open(id: string, search: boolean): Promise<void> {
    const wanted = ++this.#wanted;
    this.#id = id;
    this.#remember();
    this.element.classList.add("opened");
    try {
      const view = await this.#source.trajectory(this.#run, id);
      if (wanted !== this.#wanted) return;
      this.#siblings = view.siblings.map((sibling) => sibling.id);
      fill(
        this.#panel,
        trajectoryPanel(view, {
          open: (other) => void this.#open(other, true),
          link: (other) => formatRoute("trajectories", this.#parameters(other)),
          linkToQuestion: (question) => formatRoute("trajectories", this.#sameQuestion(question)),
          close: () => this.#close(),
        }),
      );
      this.#panel.scrollTop = 0;
      announce(`Trajectory ${id}, ${stateOf(view.row)}`);
      if (!search) return;
      const { located } = await this.#source.rows(this.#run, this.#controls.query, 0, 1, id);
      if (wanted === this.#wanted) this.#list.mark(located ?? undefined);
    } catch (error) {
      if (wanted !== this.#wanted) return;
      fill(this.#panel, el("div", { class: "empty" }, el("p", {}, foreign((error as Error).message))));
    }
  }

  #close(): void {
    this.#wanted++;
    this.#id = null;
    this.#siblings = [];
    this.#remember();
    this.element.classList.remove("opened");
    hideTip();
    this.#showNothing();
    this.#list.element.focus();
  }

  #showNothing(): void {
    fill(
      this.#panel,
      el(
        "div",
        { class: "empty" },
        el("p", {}, "Choose a trajectory."),
        el(
          "p",
          {},
          el("kbd", {}, "j"),
          " ",
          el("kbd", {}, "k"),
          " move, ",
          el("kbd", {}, "h"),
          " ",
          el("kbd", {}, "l"),
          " go through its group, ",
          el("kbd", {}, "?"),
          " shows all keys.",
        ),
      ),
    );
  }
}

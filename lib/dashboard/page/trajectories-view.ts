import type { RowsReply, TrajectoryRow } from "../messages.js";
import {
  FILTERS,
  type FilterName,
  formatRowQuery,
  ORDERS,
  type OrderName,
  parseRowQuery,
  type RowQuery,
} from "../row-query.js";
import { announce, el, fill, foreign } from "./dom.js";
import { count, number, signed } from "./format.js";
import { formatRoute, replaceRoute } from "./route.js";
import type { Source } from "./source.js";
import { hideTip } from "./token-strip.js";
import { stateOf, trajectoryPanel } from "./trajectory-panel.js";
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
  readonly #search: HTMLInputElement;
  readonly #chips = new Map<FilterName, HTMLButtonElement>();
  #query: RowQuery;
  #id: string | null;
  #revision = "";
  #siblings: string[] = [];
  #wanted = 0;
  #opening: Promise<unknown> = Promise.resolve();
  #typing: ReturnType<typeof setTimeout> | undefined;

  constructor(source: Source, parameters: URLSearchParams) {
    this.#source = source;
    this.#run = parameters.get("run") ?? "";
    this.title = `Trajectories of ${this.#run}`;
    this.#query = parseRowQuery(parameters);
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
    this.#search = el("input", {
      type: "search",
      placeholder: "Question, answer or id",
      "aria-label": "Search",
      maxlength: 200,
      on: { input: () => this.#type() },
    });
    this.#search.value = this.#query.text;
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
        el("div", { class: "list-pane" }, this.#controls(), this.#status, this.#list.element),
        this.#panel,
      ),
    );
    this.#showNothing();
  }

  async refresh(): Promise<void> {
    const locate = this.#id ?? undefined;
    const reply = await this.#source.rows(this.#run, this.#query, 0, 1, locate);
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
    if (JSON.stringify(parseRowQuery(parameters)) !== JSON.stringify(this.#query)) return false;
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
        this.#search.focus();
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
    clearTimeout(this.#typing);
    this.#list.destroy();
    hideTip();
  }

  #controls(): HTMLElement {
    const chips = (Object.keys(FILTERS) as FilterName[]).map((name) => {
      const chip = el(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(this.#query.filters.includes(name)),
          on: { click: () => this.#toggle(name) },
        },
        FILTERS[name].title,
      );
      this.#chips.set(name, chip);
      return chip;
    });
    const order = el(
      "select",
      {
        "aria-label": "Order",
        on: {
          change: (event) =>
            void this.#ask({ ...this.#query, order: (event.target as HTMLSelectElement).value as OrderName }),
        },
      },
      ...(Object.keys(ORDERS) as OrderName[]).map((name) =>
        el("option", { value: name }, ORDERS[name].title),
      ),
    );
    order.value = this.#query.order;
    const step = el("input", {
      type: "number",
      min: 0,
      placeholder: "step",
      "aria-label": "Training step",
      on: {
        change: (event) => {
          const { value } = event.target as HTMLInputElement;
          void this.#ask({ ...this.#query, step: /^\d+$/.test(value) ? Number(value) : null });
        },
      },
    });
    step.value = this.#query.step === null ? "" : String(this.#query.step);
    return el(
      "div",
      { class: "list-controls" },
      el("div", { class: "list-search" }, this.#search, step, order),
      el("div", { class: "chips", role: "group", "aria-label": "Filters" }, ...chips),
    );
  }

  #type(): void {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.#ask({ ...this.#query, text: this.#search.value }), 200);
  }

  #toggle(name: FilterName): void {
    const { filters } = this.#query;
    const next = filters.includes(name) ? filters.filter((other) => other !== name) : [...filters, name];
    this.#chips.get(name)?.setAttribute("aria-pressed", String(next.includes(name)));
    void this.#ask({ ...this.#query, filters: next });
  }

  async #ask(query: RowQuery): Promise<void> {
    this.#query = query;
    this.#remember();
    this.#list.mark(undefined);
    this.#list.top();
    const reply = await this.#source.rows(this.#run, query, 0, 1, this.#id ?? undefined);
    if (query !== this.#query) return;
    this.#describe(reply);
    this.#revision = reply.revision;
    await this.#list.reload();
    if (reply.located !== null) this.#list.mark(reply.located);
    announce(`${count(reply.matched)} trajectories`);
  }

  async #fetch(offset: number, limit: number) {
    const reply = await this.#source.rows(this.#run, this.#query, offset, limit);
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
    const parameters = formatRowQuery(this.#query);
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
      const { located } = await this.#source.rows(this.#run, this.#query, 0, 1, id);
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

function rowElement(row: TrajectoryRow): HTMLElement {
  const state = stateOf(row);
  const signs = { right: "✓", wrong: "✕", outage: "!", cut: "…" };
  return el(
    "div",
    {},
    el("span", { class: `state ${state}`, "aria-hidden": "true" }, signs[state]),
    el("span", { class: "hidden" }, `${state}: `),
    el(
      "div",
      { class: "row-text" },
      el("div", { class: "row-question" }, foreign(row.question)),
      el(
        "div",
        { class: "row-answer" },
        row.answer === null ? el("i", {}, foreign(row.status)) : foreign(row.answer),
      ),
    ),
    el(
      "div",
      { class: "row-side" },
      el("span", { class: "row-id" }, foreign(row.id)),
      el(
        "span",
        { class: "row-facts" },
        row.leaked !== null &&
          el("span", { class: "dot leak", title: `${row.leaked} holds the answer` }, "leak"),
        row.critique !== null &&
          row.critique !== "ok" &&
          el("span", { class: "dot judge", title: "no critique" }, "judge"),
        row.weight !== null &&
          el("span", { title: "mean distillation weight" }, `w ${number(row.weight, 2)}`),
        el("span", { title: "searches" }, `${row.searches} ⌕`),
        el("span", { title: "advantage" }, signed(row.advantage, 2)),
      ),
    ),
  );
}

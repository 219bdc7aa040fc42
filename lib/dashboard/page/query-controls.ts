import { FILTERS, type FilterName, ORDERS, type OrderName, type RowQuery } from "../row-query.js";
import { el } from "./dom.js";

const TYPING_MS = 200;

/** What trajectories are wanted, and in which order: a search, a step, an order and filters. */
export class QueryControls {
  readonly element: HTMLElement;
  readonly #ask: (query: RowQuery) => void;
  readonly #search: HTMLInputElement;
  #query: RowQuery;
  #typing: ReturnType<typeof setTimeout> | undefined;

  /** @param ask - Called with each query but the first. */
  constructor(query: RowQuery, ask: (query: RowQuery) => void) {
    this.#query = query;
    this.#ask = ask;
    this.#search = el("input", {
      type: "search",
      placeholder: "Question, answer or id",
      "aria-label": "Search",
      maxlength: 200,
      on: { input: () => this.#type() },
    });
    this.#search.value = query.text;
    this.element = el(
      "div",
      { class: "list-controls" },
      el("div", { class: "list-search" }, this.#search, this.#step(), this.#order()),
      el("div", { class: "chips", role: "group", "aria-label": "Filters" }, ...this.#chips()),
    );
  }

  /** The latest. */
  get query(): RowQuery {
    return this.#query;
  }

  focus(): void {
    this.#search.focus();
  }

  destroy(): void {
    clearTimeout(this.#typing);
  }

  #change(part: Partial<RowQuery>): void {
    this.#query = { ...this.#query, ...part };
    this.#ask(this.#query);
  }

  #type(): void {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#change({ text: this.#search.value }), TYPING_MS);
  }

  #step(): HTMLElement {
    const step = el("input", {
      type: "number",
      min: 0,
      placeholder: "step",
      "aria-label": "Training step",
      on: { change: () => this.#change({ step: /^\d+$/.test(step.value) ? Number(step.value) : null }) },
    });
    step.value = this.#query.step === null ? "" : String(this.#query.step);
    return step;
  }

  #order(): HTMLElement {
    const order = el(
      "select",
      { "aria-label": "Order", on: { change: () => this.#change({ order: order.value as OrderName }) } },
      ...(Object.keys(ORDERS) as OrderName[]).map((name) =>
        el("option", { value: name }, ORDERS[name].title),
      ),
    );
    order.value = this.#query.order;
    return order;
  }

  #chips(): HTMLElement[] {
    return (Object.keys(FILTERS) as FilterName[]).map((name) => {
      const chip = el(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(this.#query.filters.includes(name)),
          on: {
            click: () => {
              const { filters } = this.#query;
              const without = filters.filter((other) => other !== name);
              const pressed = without.length === filters.length;
              chip.setAttribute("aria-pressed", String(pressed));
              this.#change({ filters: pressed ? [...filters, name] : without });
            },
          },
        },
        FILTERS[name].title,
      );
      return chip;
    });
  }
}

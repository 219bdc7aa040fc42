import { el } from "./dom.js";

/** What a list shows, piece by piece. */
export interface ListSource<Row> {
  /** Rows from `offset` on. */
  fetch(offset: number, limit: number): Promise<{ rows: Row[]; matched: number }>;
  /** The content of a row's element. */
  render(row: Row, place: number): HTMLElement;
  /** Its row was chosen. */
  choose(row: Row, place: number): void;
}

const PAGE = 100;
/** Pages kept; older ones are asked for again. */
const KEPT_PAGES = 40;
/** Rows beyond the edges that are drawn. */
const MARGIN = 6;
/** Browsers cut taller elements; beyond it the list is scrolled by share. */
const MAX_HEIGHT = 12_000_000;

/**
 * A list of any length: only the rows in sight are in the document, and only the pages around them in memory. It is one
 * stop of the Tab key; arrows move the choice.
 */
export class VirtualList<Row> {
  readonly element: HTMLElement;
  readonly #source: ListSource<Row>;
  readonly #rowHeight: number;
  readonly #spacer = el("div", { class: "spacer", role: "presentation" });
  readonly #pages = new Map<number, Row[] | Promise<void>>();
  readonly #drawn = new Map<number, HTMLElement>();
  readonly #observer: ResizeObserver;
  #generation = 0;
  #matched = 0;
  #chosen: number | undefined;

  /**
   * @param rowHeight - Of every row, in pixels.
   */
  constructor(source: ListSource<Row>, rowHeight: number, label: string) {
    this.#source = source;
    this.#rowHeight = rowHeight;
    this.element = el(
      "div",
      {
        class: "virtual-list",
        role: "listbox",
        tabindex: 0,
        "aria-label": label,
        on: {
          scroll: () => this.#draw(),
          keydown: (event) => this.#key(event),
        },
      },
      this.#spacer,
    );
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(this.element);
  }

  /** Rows in all. */
  get matched(): number {
    return this.#matched;
  }

  /** Place of the chosen row. */
  get chosen(): number | undefined {
    return this.#chosen;
  }

  /** Forgets everything and asks again; the place in the list stays. */
  async reload(): Promise<void> {
    this.#generation++;
    this.#pages.clear();
    await this.#load(this.#firstInSight());
    this.#clear();
    this.#draw();
  }

  /** Goes to the start. */
  top(): void {
    this.element.scrollTop = 0;
  }

  /** Marks a row and brings it into sight, without telling the source. */
  mark(place: number | undefined): void {
    const before = this.#chosen;
    this.#chosen = place;
    for (const at of [before, place]) {
      const row = at === undefined ? undefined : this.#drawn.get(at);
      row?.setAttribute("aria-selected", String(at === place));
    }
    if (place === undefined) this.element.removeAttribute("aria-activedescendant");
    else {
      this.element.setAttribute("aria-activedescendant", `row-${place}`);
      this.#show(place);
    }
  }

  /** Chooses the row that many places on; at the ends nothing happens. */
  async move(by: number): Promise<void> {
    const next = this.#chosen === undefined ? 0 : this.#chosen + by;
    const place = Math.min(Math.max(next, 0), this.#matched - 1);
    if (place < 0 || place === this.#chosen) return;
    await this.#load(place);
    const row = this.#row(place);
    if (row === undefined) return;
    this.mark(place);
    this.#source.choose(row, place);
  }

  /** Lets go of everything. */
  destroy(): void {
    this.#generation++;
    this.#observer.disconnect();
  }

  get #height(): number {
    return Math.min(this.#matched * this.#rowHeight, MAX_HEIGHT);
  }

  /** Pixels of the list per pixel of the scroll bar: 1 unless the list is taller than browsers allow. */
  get #scale(): number {
    const { clientHeight } = this.element;
    const scrolled = this.#height - clientHeight;
    return scrolled <= 0 ? 1 : (this.#matched * this.#rowHeight - clientHeight) / scrolled;
  }

  #firstInSight(): number {
    return Math.max(0, Math.floor((this.element.scrollTop * this.#scale) / this.#rowHeight));
  }

  #show(place: number): void {
    const { clientHeight, scrollTop } = this.element;
    const top = place * this.#rowHeight;
    const seen = scrollTop * this.#scale;
    if (top < seen) this.element.scrollTop = top / this.#scale;
    else if (top + this.#rowHeight > seen + clientHeight) {
      this.element.scrollTop = (top + this.#rowHeight - clientHeight) / this.#scale;
    }
    this.#draw();
  }

  #row(place: number): Row | undefined {
    const page = this.#pages.get(Math.floor(place / PAGE));
    return Array.isArray(page) ? page[place % PAGE] : undefined;
  }

  async #load(place: number): Promise<void> {
    const number = Math.floor(place / PAGE);
    const known = this.#pages.get(number);
    if (known !== undefined) return Array.isArray(known) ? undefined : known;
    const generation = this.#generation;
    const loading = this.#source.fetch(number * PAGE, PAGE).then(
      ({ rows, matched }) => {
        if (generation !== this.#generation) return;
        this.#pages.set(number, rows);
        for (const old of this.#pages.keys()) {
          if (this.#pages.size <= KEPT_PAGES) break;
          if (old !== number) this.#pages.delete(old);
        }
        if (matched !== this.#matched) {
          this.#matched = matched;
          this.#spacer.style.setProperty("height", `${this.#height}px`);
        }
        this.#draw();
      },
      (error) => {
        if (generation !== this.#generation) return;
        this.#pages.delete(number);
        throw error;
      },
    );
    this.#pages.set(number, loading);
    return loading;
  }

  #clear(): void {
    for (const row of this.#drawn.values()) row.remove();
    this.#drawn.clear();
  }

  #draw(): void {
    const { clientHeight, scrollTop } = this.element;
    if (clientHeight === 0) return;
    this.#spacer.style.setProperty("height", `${this.#height}px`);
    const seen = scrollTop * this.#scale;
    const first = Math.max(0, Math.floor(seen / this.#rowHeight) - MARGIN);
    const last = Math.min(this.#matched, Math.ceil((seen + clientHeight) / this.#rowHeight) + MARGIN);
    for (const [place, row] of this.#drawn) {
      if (place >= first && place < last) continue;
      row.remove();
      this.#drawn.delete(place);
    }
    const shift = scrollTop - seen;
    for (let place = first; place < last; place++) {
      const row = this.#drawn.get(place) ?? this.#make(place);
      row?.style.setProperty("transform", `translateY(${place * this.#rowHeight + shift}px)`);
    }
  }

  #make(place: number): HTMLElement | undefined {
    const row = this.#row(place);
    if (row === undefined) {
      // Its rows are drawn when they are there; if that fails, the next look tries again.
      this.#load(place).catch(() => undefined);
      return undefined;
    }
    const element = this.#source.render(row, place);
    element.classList.add("row");
    element.id = `row-${place}`;
    element.setAttribute("role", "option");
    element.setAttribute("aria-setsize", String(this.#matched));
    element.setAttribute("aria-posinset", String(place + 1));
    element.setAttribute("aria-selected", String(place === this.#chosen));
    element.style.setProperty("height", `${this.#rowHeight}px`);
    element.addEventListener("click", () => {
      this.mark(place);
      this.#source.choose(row, place);
    });
    this.#drawn.set(place, element);
    this.#spacer.append(element);
    return element;
  }

  #key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -this.#matched,
      End: this.#matched,
    };
    const by = steps[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    void this.move(by);
  }
}

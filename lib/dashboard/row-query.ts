import type { TrajectoryRow } from "./messages.js";

/** Filters of the list, by name. */
export const FILTERS = {
  failed: { title: "Failed", test: (row: TrajectoryRow) => row.failed },
  correct: { title: "Correct", test: (row: TrajectoryRow) => row.reward !== null && !row.failed },
  "all-fail": { title: "All-fail groups", test: (row: TrajectoryRow) => row.outcome === "all-fail" },
  mixed: { title: "Mixed groups", test: (row: TrajectoryRow) => row.outcome === "mixed" },
  leaked: { title: "Leaked", test: (row: TrajectoryRow) => row.leaked !== null },
  found: { title: "Failed with gold found", test: (row: TrajectoryRow) => row.failed && row.found },
  judge: {
    title: "Judge failed",
    test: (row: TrajectoryRow) => row.critique !== null && row.critique !== "ok",
  },
  repeated: { title: "Repeated query", test: (row: TrajectoryRow) => row.repeated },
  truncated: { title: "Truncated", test: (row: TrajectoryRow) => row.status === "truncated" },
  "no-answer": { title: "No answer", test: (row: TrajectoryRow) => row.status === "no answer" },
  outage: { title: "Search failed", test: (row: TrajectoryRow) => row.status === "search failed" },
} as const;

/** Name of a filter. */
export type FilterName = keyof typeof FILTERS;

/** Orders of the list, by name. Equal ones stay in the order of the run. */
export const ORDERS = {
  first: { title: "First first", by: null },
  last: { title: "Latest first", by: null },
  searches: { title: "Most searches", by: (row: TrajectoryRow) => row.searches },
  tokens: { title: "Longest", by: (row: TrajectoryRow) => row.tokens },
  weight: { title: "Most distilled", by: (row: TrajectoryRow) => row.weight },
  advantage: { title: "Highest advantage", by: (row: TrajectoryRow) => row.advantage },
  disadvantage: {
    title: "Lowest advantage",
    by: ({ advantage }: TrajectoryRow) => (advantage === null ? null : -advantage),
  },
  reward: { title: "Highest reward", by: (row: TrajectoryRow) => row.reward },
} as const;

/** Name of an order. */
export type OrderName = keyof typeof ORDERS;

/** What a list shows. */
export interface RowQuery {
  /** All of them must hold. */
  filters: FilterName[];
  order: OrderName;
  /** Looked for in id, question, gold answer and answer, without case. */
  text: string;
  /** One training step alone. */
  step: number | null;
}

/** Reads a query from an address; what it does not know it leaves out. */
export function parseRowQuery(parameters: URLSearchParams): RowQuery {
  const names = (parameters.get("filter") ?? "").split(",");
  const order = parameters.get("order") ?? "";
  const step = parameters.get("step") ?? "";
  return {
    filters: names.filter((name): name is FilterName => Object.hasOwn(FILTERS, name)),
    order: Object.hasOwn(ORDERS, order) ? (order as OrderName) : "first",
    text: (parameters.get("text") ?? "").slice(0, 200),
    step: /^\d{1,9}$/.test(step) ? Number(step) : null,
  };
}

/** Writes a query into an address; what is as by default is left out. */
export function formatRowQuery({ filters, order, text, step }: RowQuery): URLSearchParams {
  const parameters = new URLSearchParams();
  if (filters.length > 0) parameters.set("filter", filters.join());
  if (order !== "first") parameters.set("order", order);
  if (text !== "") parameters.set("text", text);
  if (step !== null) parameters.set("step", String(step));
  return parameters;
}

/** Numbers of the rows that match, in the order asked for. */
export function selectRows(rows: readonly TrajectoryRow[], query: RowQuery): number[] {
  const tests = query.filters.map((name) => FILTERS[name].test);
  const wanted = query.text.trim().toLowerCase();
  const found: number[] = [];
  for (const [i, row] of rows.entries()) {
    if (query.step !== null && row.step !== query.step) continue;
    if (!tests.every((test) => test(row))) continue;
    if (wanted !== "" && !textOf(row).includes(wanted)) continue;
    found.push(i);
  }
  if (query.order === "last") return found.reverse();
  const { by } = ORDERS[query.order];
  if (by === null) return found;
  const keys = new Map(found.map((i) => [i, by(rows[i] as TrajectoryRow) ?? Number.NEGATIVE_INFINITY]));
  return found.sort((a, b) => {
    const [left, right] = [keys.get(a) as number, keys.get(b) as number];
    return left === right ? a - b : right > left ? 1 : -1;
  });
}

function textOf({ id, question, gold, answer }: TrajectoryRow): string {
  return `${id}\n${question}\n${gold}\n${answer ?? ""}`.toLowerCase();
}

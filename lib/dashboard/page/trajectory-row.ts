import type { TrajectoryRow } from "../messages.js";
import { el, foreign } from "./dom.js";
import { number, signed } from "./format.js";
import { stateOf } from "./trajectory-panel.js";

/** A trajectory in the list. */
export function rowElement(row: TrajectoryRow): HTMLElement {
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

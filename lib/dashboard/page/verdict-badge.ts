import type { Level, Verdict } from "../messages.js";
import { el } from "./dom.js";

const SIGNS: Record<Level, string> = { good: "✓", watch: "!", bad: "✕", unknown: "?" };

/** The verdict in a few words. */
export function verdictBadge({ level, title }: Verdict): HTMLElement {
  return el(
    "span",
    { class: `badge level-${level}` },
    el("span", { "aria-hidden": "true" }, `${SIGNS[level]} `),
    title,
  );
}

/** Everything that the verdict looked at. */
export function verdictList({ findings }: Verdict): HTMLElement {
  if (findings.length === 0)
    return el("p", { class: "empty" }, "Nothing to look at before the first training step.");
  return el(
    "ul",
    { class: "findings" },
    ...findings.map(({ level, title, text }) =>
      el(
        "li",
        { class: `level-${level}` },
        el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[level]),
        el("div", {}, el("strong", {}, title), el("p", {}, text)),
      ),
    ),
  );
}

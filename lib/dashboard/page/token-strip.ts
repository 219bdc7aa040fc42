import type { TokenView } from "../messages.js";
import { el, fill, foreign } from "./dom.js";
import { number, signed } from "./format.js";

const tip = el("div", { class: "tip", role: "tooltip", id: "token-tip", hidden: true });

/**
 * Tokens in a row, coloured by their distillation weight. Log-probs are shown under the pointer or the focus: the strip
 * is one stop of the Tab key, and arrows move within it.
 */
export function tokenStrip(tokens: readonly TokenView[], label: string): HTMLElement {
  const spans = tokens.map((token, i) => {
    const span = el(
      "span",
      { class: "token", role: "img", tabindex: i === 0 ? 0 : -1, "aria-label": spoken(token) },
      visible(token),
    );
    if (token.weight !== null) {
      span.style.setProperty("--weight-share", String(Math.min(1, Math.max(0, token.weight))));
      span.dataset.weight = String(token.weight);
      span.classList.add("weighted");
      if (gapOf(token) !== null && (gapOf(token) as number) < -0.05) span.classList.add("against");
    }
    span.addEventListener("pointerenter", () => showTip(span, token));
    span.addEventListener("pointerleave", hideTip);
    span.addEventListener("focus", () => showTip(span, token));
    span.addEventListener("blur", hideTip);
    return span;
  });
  return el(
    "div",
    {
      class: "token-strip",
      role: "group",
      "aria-label": label,
      on: {
        keydown: (event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          const at = spans.indexOf(document.activeElement as HTMLSpanElement);
          const next = by === undefined || at < 0 ? undefined : spans[at + by];
          if (by !== undefined) event.stopPropagation();
          if (next === undefined) return;
          event.preventDefault();
          spans[at]?.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        },
      },
    },
    ...spans,
  );
}

/** The same as a table. */
export function tokenTable(tokens: readonly TokenView[]): HTMLElement {
  const heads = ["Token", "Id", "Student", "Reference", "Teacher", "Gap", "Weight"];
  return el(
    "table",
    { class: "token-table" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el(
      "tbody",
      {},
      ...tokens.map((token) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, visible(token)),
          ...[
            String(token.id),
            number(token.student),
            number(token.reference),
            number(token.teacher),
            signed(gapOf(token)),
            number(token.weight),
          ].map((text) => el("td", {}, text)),
        ),
      ),
    ),
  );
}

function gapOf({ teacher, student }: TokenView): number | null {
  return teacher === null ? null : teacher - student;
}

/** Spaces and line feeds are part of a token, so they are seen. */
function visible({ text, id }: TokenView): HTMLElement {
  if (text === null) return el("span", { class: "token-id" }, `#${id}`);
  if (text === "") return el("span", { class: "token-id" }, "∅");
  return foreign(text.replaceAll("\n", "⏎").replaceAll("\t", "⇥"));
}

function spoken(token: TokenView): string {
  const { text, id, student, reference, teacher, weight } = token;
  const name = text?.trim() || `token ${id}`;
  const parts = [`student ${number(student)}`];
  if (reference !== null) parts.push(`reference ${number(reference)}`);
  if (teacher !== null) parts.push(`teacher ${number(teacher)}`, `weight ${number(weight)}`);
  return `${name}: ${parts.join(", ")}`;
}

function showTip(span: HTMLElement, token: TokenView): void {
  const { student, reference, teacher, weight, id } = token;
  const row = (name: string, value: number | null, isProbability: boolean) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", {}, isProbability ? number(value) : signed(value)),
      el(
        "td",
        { class: "chance" },
        isProbability && value !== null ? `${number(100 * Math.exp(value), 3)} %` : "",
      ),
    );
  fill(
    tip,
    el("div", { class: "tip-head" }, visible(token), el("small", {}, ` id ${id}`)),
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        row("student", student, true),
        row("reference", reference, true),
        row("teacher", teacher, true),
        teacher !== null && row("gap", gapOf(token), false),
        weight !== null &&
          el(
            "tr",
            { class: "weight" },
            el("th", { scope: "row" }, "weight"),
            el("td", {}, number(weight)),
            el("td"),
          ),
      ),
    ),
    teacher === null && el("p", {}, "No teacher: the trajectory has no distillation term."),
  );
  if (!tip.isConnected) document.body.append(tip);
  tip.hidden = false;
  const place = span.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = tip;
  const left = Math.min(Math.max(8, place.left), document.documentElement.clientWidth - offsetWidth - 8);
  const below = place.bottom + offsetHeight + 12 < document.documentElement.clientHeight;
  const top = below ? place.bottom + 6 : place.top - offsetHeight - 6;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${Math.max(8, top)}px`);
}

/** Takes the figures away. */
export function hideTip(): void {
  tip.hidden = true;
}

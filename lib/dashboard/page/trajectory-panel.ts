import type { PartView, PassageView, TrajectoryRow, TrajectoryView } from "../messages.js";
import { type Child, el, fill, foreign, marked } from "./dom.js";
import { number, signed } from "./format.js";
import { hideTip, tokenStrip, tokenTable } from "./token-strip.js";

/** What the panel asks of the view around it. */
export interface PanelActions {
  /** Shows another trajectory of the group. */
  open(id: string): void;
  /** Address of a trajectory. */
  link(id: string): string;
  /** Address of the list of all that were asked something. */
  linkToQuestion(question: string): string;
  close(): void;
}

/** One trajectory, from question to critique. */
export function trajectoryPanel(view: TrajectoryView, actions: PanelActions): HTMLElement {
  hideTip();
  const { row, question, answer } = view;
  return el(
    "article",
    { class: "trajectory", "aria-labelledby": "question" },
    el(
      "div",
      { class: "panel-bar" },
      el("button", { class: "button back", type: "button", on: { click: actions.close } }, "← List"),
      siblingStrip(view, actions),
      permalink(row, actions),
    ),
    el("h2", { id: "question" }, foreign(question.text)),
    el(
      "a",
      { class: "others", href: actions.linkToQuestion(row.question) },
      "All trajectories of this question",
    ),
    el(
      "dl",
      { class: "answers" },
      el("div", {}, el("dt", {}, "Gold"), el("dd", {}, ...listed(question.gold, 10))),
      el(
        "div",
        {},
        el("dt", {}, "Answer"),
        el(
          "dd",
          { class: row.failed ? "wrong" : row.reward === null ? "" : "right" },
          answer === null ? el("i", {}, "none") : foreign(answer),
          row.reward !== null && el("span", { class: "verdict-sign" }, row.failed ? " ✕ wrong" : " ✓ right"),
        ),
      ),
    ),
    badges(view),
    view.reason !== null && el("p", { class: "note" }, foreign(view.reason)),
    critique(view),
    el("h3", {}, "Turns"),
    !view.hasTexts &&
      el(
        "p",
        { class: "note" },
        "This run did not record the text of tokens: it was made by an older version. Queries, passages and the answer are whole.",
      ),
    el(
      "ol",
      { class: "turns" },
      ...view.turns.map((parts) => el("li", { class: "turn" }, ...parts.map(part))),
    ),
    view.turns.some((parts) => parts.some((one) => one.kind === "search" && one.tokens.length > 0)) &&
      weightLegend(view),
    queryTokens(view),
    facts(view),
  );
}

function siblingStrip({ row, siblings }: TrajectoryView, { open }: PanelActions): HTMLElement {
  return el(
    "div",
    { class: "siblings", role: "group", "aria-label": "Trajectories of the group" },
    ...siblings.slice(0, 64).map((sibling) =>
      el(
        "button",
        {
          type: "button",
          class: `sibling ${stateOf(sibling)}`,
          "aria-current": sibling.id === row.id ? "true" : undefined,
          title: `Sample ${sibling.sample}: ${sibling.status}, reward ${number(sibling.reward)}`,
          "aria-label": `Sample ${sibling.sample}, ${stateOf(sibling)}`,
          on: { click: () => open(sibling.id) },
        },
        sibling.sample,
      ),
    ),
  );
}

/** How a trajectory came out, in one word. */
export function stateOf({ reward, failed, status }: TrajectoryRow): "right" | "wrong" | "outage" | "cut" {
  if (reward === null || status === "search failed") return "outage";
  if (!failed) return "right";
  return status === "answered" ? "wrong" : "cut";
}

function permalink({ id }: TrajectoryRow, { link }: PanelActions): HTMLElement {
  return el("a", { class: "permalink", href: link(id), title: "Link to this trajectory" }, foreign(id));
}

function badges({ row, components }: TrajectoryView): HTMLElement {
  const badge = (name: string, value: Child, kind = "") =>
    el("li", { class: kind }, el("span", {}, name), " ", value);
  return el(
    "ul",
    { class: "badges" },
    badge("status", foreign(row.status)),
    badge("reward", el("b", {}, number(row.reward))),
    badge(
      "advantage",
      el("b", {}, signed(row.advantage)),
      (row.advantage ?? 0) > 0 ? "up" : (row.advantage ?? 0) < 0 ? "down" : "",
    ),
    badge("group", row.outcome),
    ...components.map(([name, value]) =>
      badge("", el("span", {}, foreign(name), " ", el("b", {}, number(value)))),
    ),
    badge("step", String(row.step)),
    badge("searches", String(row.searches)),
    row.found && badge("", row.failed ? "gold found, answer wrong" : "gold found"),
    row.repeated && badge("", "repeated query", "warn"),
    row.leaked !== null && badge("", `${row.leaked} holds the answer`, "warn"),
  );
}

function critique({ critique }: TrajectoryView): Child {
  if (critique === null)
    return el("p", { class: "critique none" }, "No critique: the judge was not asked about it.");
  const raw =
    critique.raw !== null &&
    el(
      "details",
      {},
      el("summary", {}, "Whole reply of the judge"),
      el("p", { class: "raw" }, foreign(critique.raw)),
    );
  if ("text" in critique) {
    const leaks = critique.text.length > 1;
    return el(
      "section",
      { class: `critique${leaks ? " leaks" : ""}` },
      el("h3", {}, "Critique", leaks && el("span", { class: "badge level-bad" }, "states the gold answer")),
      el("p", {}, marked(critique.text, "a gold answer")),
      raw,
    );
  }
  return el(
    "section",
    { class: "critique failed" },
    el("h3", {}, "Critique ", el("span", { class: "badge level-watch" }, foreign(critique.status))),
    el("p", {}, foreign(critique.reason)),
    raw,
  );
}

function part(one: PartView): HTMLElement {
  switch (one.kind) {
    case "search":
      return searchPart(one);
    case "observation":
      return el("p", { class: "inserted" }, `${one.tokens} tokens of passages inserted`);
    case "notice":
      return el(
        "p",
        { class: "inserted" },
        `The action was invalid: a notice of ${one.tokens} tokens was inserted`,
      );
    default: {
      const label = { think: "Thinking", answer: "Answer", tag: "Tag" }[one.kind];
      const body =
        one.tokens === null
          ? one.text === null
            ? el("i", {}, "not recorded")
            : foreign(one.text)
          : tokenStrip(one.tokens, label);
      const empty = one.tokens === null && one.text !== null && one.text.trim() === "";
      if (one.kind === "tag" || empty) return el("div", { class: `part ${one.kind}`, hidden: empty }, body);
      return el("div", { class: `part ${one.kind}` }, el("span", { class: "part-label" }, label), body);
    }
  }
}

function searchPart({
  query,
  tokens,
  passages,
  repeated,
}: Extract<PartView, { kind: "search" }>): HTMLElement {
  const strip = tokens.length > 0 && tokens.every(({ text }) => text !== null);
  return el(
    "div",
    { class: "part search" },
    el(
      "span",
      { class: "part-label" },
      "Search",
      repeated && el("span", { class: "badge level-watch" }, "repeated"),
    ),
    strip ? tokenStrip(tokens, "Query tokens") : el("p", { class: "query" }, marked(query, "a gold answer")),
    strip &&
      query.length > 1 &&
      el("p", { class: "note" }, "The query holds a gold answer: ", marked(query, "a gold answer")),
    passages.length === 0
      ? el("p", { class: "note" }, "Nothing was found.")
      : el("ol", { class: "passages" }, ...passages.map(passage)),
  );
}

function passage({ id, title, text, score, gold }: PassageView): HTMLElement {
  return el(
    "li",
    { class: gold ? "gold" : "" },
    el(
      "div",
      { class: "passage-head" },
      el("strong", {}, marked(title, "a gold answer")),
      gold && el("span", { class: "badge level-gold" }, "★ holds the gold answer"),
      el("small", {}, foreign(id), score === null ? "" : ` · score ${number(score)}`),
    ),
    el("p", {}, marked(text, "a gold answer")),
  );
}

function weightLegend({ row }: TrajectoryView): HTMLElement {
  if (row.weight === null)
    return el(
      "p",
      { class: "weight-legend" },
      "Query tokens have no distillation weight here. Point at a token for its log-probs.",
    );
  return el(
    "p",
    { class: "weight-legend" },
    "Distillation weight ",
    el("span", { class: "ramp", "aria-hidden": "true" }),
    " 0 to 1; ",
    el("span", { class: "token against" }, "underlined"),
    " where the teacher finds a token less likely. Point at a token for its log-probs.",
  );
}

function queryTokens({ turns }: TrajectoryView): Child {
  const tokens = turns
    .flat()
    .flatMap((one) => ("tokens" in one && Array.isArray(one.tokens) ? one.tokens : []));
  if (tokens.length === 0) return null;
  const place = el("div", {
    class: "scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "Log-probs of tokens",
  });
  const details: HTMLDetailsElement = el(
    "details",
    {
      on: {
        toggle: () => {
          if (details.open && place.childElementCount === 0) fill(place, tokenTable(tokens));
        },
      },
    },
    el("summary", {}, "Log-probs as a table"),
    place,
  );
  return details;
}

function facts({ facts, question }: TrajectoryView): HTMLElement {
  const rows: [string, string][] = [
    ["Question id", question.id],
    ...facts,
    ...(question.metadata === null ? [] : [["Metadata", question.metadata] as [string, string]]),
  ];
  return el(
    "details",
    {},
    el("summary", {}, "More about it"),
    el(
      "dl",
      { class: "facts" },
      ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, foreign(value))]),
    ),
  );
}

function listed(texts: readonly string[], most: number): Child[] {
  if (texts.length === 0) return [el("i", {}, "none")];
  const shown = texts
    .slice(0, most)
    .flatMap((text, i): Child[] => (i === 0 ? [foreign(text)] : [" · ", foreign(text)]));
  return texts.length > most ? [...shown, ` and ${texts.length - most} more`] : shown;
}

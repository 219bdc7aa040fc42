import { el, fill, foreign } from "./dom.js";
import { formatRoute, parseRoute, type Route } from "./route.js";
import { RunView } from "./run-view.js";
import { RunsView } from "./runs-view.js";
import { HttpSource, keepToken, ReportSource, type Source, TokenNeeded } from "./source.js";
import { currentTheme, nextTheme, onThemeChange } from "./theme.js";
import { TrajectoriesView } from "./trajectories-view.js";
import type { View } from "./view.js";

/** Milliseconds between two looks at the server. */
const LOOK = 3_000;

const main = document.getElementById("main") as HTMLElement;
const source: Source = ReportSource.find() ?? new HttpSource();
let view: View | undefined;
let shown: Route["view"] | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** The token comes in the fragment, which is sent nowhere, and leaves the address at once. */
function takeToken(): void {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  keepToken(token);
  history.replaceState(null, "", location.pathname);
}

function makeView({ view: name, parameters }: Route): View {
  if (name === "run") return new RunView(source, parameters);
  if (name === "trajectories") return new TrajectoriesView(source, parameters);
  return new RunsView(source, parameters);
}

function show(): void {
  const route = parseRoute(location.hash);
  if (view !== undefined && shown === route.view && view.follow?.(route.parameters)) return;
  view?.destroy();
  view = makeView(route);
  shown = route.view;
  document.title = `${view.title} · hindsearch`;
  fill(main, view.element);
  fillHeader(route);
  void look();
}

async function look(): Promise<void> {
  clearTimeout(timer);
  const looked = view;
  try {
    if (looked !== undefined && !document.hidden) await looked.refresh();
    if (looked !== view) return;
    document.querySelector(".trouble")?.remove();
  } catch (error) {
    if (looked !== view) return;
    if (error instanceof TokenNeeded) return askForToken();
    showTrouble((error as Error).message);
  }
  if (source.live) timer = setTimeout(() => void look(), LOOK);
}

function showTrouble(message: string): void {
  const text =
    message === "Failed to fetch" ? "The dashboard's server does not answer. Is it still running?" : message;
  document.querySelector(".trouble")?.remove();
  main.prepend(el("p", { class: "trouble", role: "alert" }, foreign(text)));
}

function askForToken(): void {
  const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const form = el(
    "form",
    {
      class: "token-form",
      on: {
        submit: (event) => {
          event.preventDefault();
          keepToken(input.value);
          view = undefined;
          show();
        },
      },
    },
    el("h1", {}, "This dashboard needs a token"),
    el("label", { for: "token" }, "Token"),
    input,
    el("button", { class: "button" }, "Open"),
  );
  fill(main, form);
  input.focus();
}

function fillHeader({ view: shownView, parameters }: Route): void {
  const run = parameters.get("run");
  const link = (target: Route["view"], text: string, values: Record<string, string> = {}) =>
    el(
      "a",
      { href: formatRoute(target, values), "aria-current": target === shownView ? "page" : undefined },
      text,
    );
  const name = el("span", { class: "theme-name" });
  const theme = el(
    "button",
    { type: "button", class: "button quiet", on: { click: () => nextTheme() } },
    el("span", { "aria-hidden": "true" }, "◐ "),
    name,
  );
  const nameTheme = () => {
    name.textContent = currentTheme();
    theme.setAttribute("aria-label", `Theme: ${currentTheme()}`);
  };
  nameTheme();
  onThemeChange(() => {
    nameTheme();
    view?.redraw?.();
  });
  fill(
    document.getElementById("top") as HTMLElement,
    el("a", { class: "brand", href: formatRoute("runs") }, "hindsearch"),
    el(
      "nav",
      { "aria-label": "Views" },
      link("runs", "Runs"),
      shownView !== "runs" && run !== null && link("run", "Run", { run }),
      shownView !== "runs" && run !== null && link("trajectories", "Trajectories", { run }),
    ),
    el("span", { class: "note" }, source.note),
    theme,
    el(
      "button",
      { type: "button", class: "button quiet", "aria-label": "Keys", on: { click: showKeys } },
      "?",
    ),
  );
}

const KEYS: [keys: string[], meaning: string][] = [
  [["j", "k"], "next, previous trajectory of the list (also ↓ ↑)"],
  [["h", "l"], "previous, next trajectory of the group (also ← →)"],
  [["/"], "search"],
  [["Esc"], "back to the list"],
  [["t"], "theme"],
  [["?"], "these keys"],
];

function showKeys(): void {
  const dialog: HTMLDialogElement = el(
    "dialog",
    { class: "keys", "aria-label": "Keys" },
    el("h2", {}, "Keys"),
    el(
      "dl",
      {},
      ...KEYS.flatMap(([keys, meaning]) => [
        el("dt", {}, ...keys.flatMap((key) => [el("kbd", {}, key), " "])),
        el("dd", {}, meaning),
      ]),
    ),
    el("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, "Close"),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  if (document.querySelector("dialog[open]") !== null) return;
  if (target instanceof HTMLElement && target.matches("input, select, textarea")) {
    if (key === "Escape") target.blur();
    return;
  }
  if (key === "?") showKeys();
  else if (key === "t") nextTheme();
  else if (!view?.key?.(event)) return;
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && source.live) void look();
});
window.addEventListener("hashchange", show);

takeToken();
show();

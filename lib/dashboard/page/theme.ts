/** `auto` follows the system. */
export type Theme = "auto" | "light" | "dark";

const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const KEY = "hindsearch-theme";
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
let listener: () => void = () => {};

/** The theme that was chosen. */
export function currentTheme(): Theme {
  return THEMES.find((theme) => theme === root.dataset.theme) ?? "auto";
}

/** Goes on to the next one. */
export function nextTheme(): void {
  set(THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length] as Theme);
}

/** Calls the listener, the last one given alone, whenever colours change. */
export function onThemeChange(heard: () => void): void {
  listener = heard;
}

function set(theme: Theme): void {
  root.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A file opened from disk may have no storage; then the choice lasts as long as the page.
  }
  listener();
}

function stored(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "auto";
  } catch {
    return "auto";
  }
}

root.dataset.theme = stored();
dark.addEventListener("change", () => listener());

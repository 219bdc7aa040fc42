/** Where in the page one is: the fragment of the address, which is a permalink. */
export interface Route {
  view: "runs" | "run" | "trajectories";
  parameters: URLSearchParams;
}

/** Reads a fragment. */
export function parseRoute(hash: string): Route {
  const [path = "", parameters = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const view = path === "run" || path === "trajectories" ? path : "runs";
  return { view, parameters: new URLSearchParams(parameters) };
}

/** Writes a fragment. */
export function formatRoute(
  view: Route["view"],
  parameters: URLSearchParams | Record<string, string> = {},
): string {
  const text = new URLSearchParams(parameters).toString();
  return `#/${view === "runs" ? "" : view}${text === "" ? "" : `?${text}`}`;
}

/** Changes the address without a new entry in the history, and without an event. */
export function replaceRoute(view: Route["view"], parameters: URLSearchParams): void {
  history.replaceState(null, "", formatRoute(view, parameters));
}

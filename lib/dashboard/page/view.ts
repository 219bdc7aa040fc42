import type { Source } from "./source.js";

/** A view of the page. */
export interface View {
  readonly element: HTMLElement;
  /** Title of the document. */
  readonly title: string;
  /** Shows what is new; called at first and, where the source is live, every few seconds. */
  refresh(): Promise<void>;
  /** The address changed within the view. Whether it could follow; otherwise, as without this, the view is made anew. */
  follow?(parameters: URLSearchParams): boolean;
  /** The theme changed; for what style sheets do not reach. */
  redraw?(): void;
  /** A key that nothing on the page took. Whether it meant something. */
  key?(event: KeyboardEvent): boolean;
  /** Lets go of everything. */
  destroy(): void;
}

/** Makes a view for an address. */
export type MakeView = (source: Source, parameters: URLSearchParams) => View;

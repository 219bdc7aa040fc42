/** What an element may be made of. Strings become text nodes, never markup. */
export type Child = Node | string | number | null | undefined | false;

/** Attributes of an element; `on` holds its listeners, and what is `undefined` or `false` is left out. */
export interface Attributes {
  [name: string]: string | number | boolean | undefined | Listeners;
  on?: Listeners;
}

type Listeners = { [Type in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Type]) => void };

/** Makes an element. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value as Listeners)) {
        element.addEventListener(type, listener as EventListener);
      }
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  fill(element, ...children);
  return element;
}

/** Replaces what an element holds. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(
    ...children.flatMap((child) =>
      child === null || child === undefined || child === false
        ? []
        : [child instanceof Node ? child : String(child)],
    ),
  );
}

/** Controls, and marks that reorder or hide text. A line feed and a tab are what they are. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
/** Marks shown by their number; further ones become one replacement character each. */
const MAX_SHOWN = 500;

/**
 * Foreign text: isolated from the direction of what stands around it, with every invisible or reordering character shown
 * by its number.
 */
export function foreign(text: string, attributes: Attributes = {}): HTMLElement {
  const parts: Child[] = [];
  let from = 0;
  let shown = 0;
  for (const { 0: character, index } of text.matchAll(HIDDEN)) {
    parts.push(text.slice(from, index));
    from = index + character.length;
    if (shown++ >= MAX_SHOWN) {
      parts.push("\ufffd");
      continue;
    }
    const code = (character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0");
    parts.push(el("span", { class: "hidden-character" }, `U+${code}`));
  }
  parts.push(text.slice(from));
  return el("bdi", { ...attributes, dir: "auto" }, ...parts.filter((part) => part !== ""));
}

/** Foreign text whose parts at odd places are marked. */
export function marked(parts: readonly string[], label: string): HTMLElement {
  return el(
    "bdi",
    { dir: "auto" },
    ...parts.map((part, i) => (i % 2 === 1 ? el("mark", { title: label }, foreign(part)) : foreign(part))),
  );
}

/** Says something to those who do not see the page. */
export function announce(text: string): void {
  const place = document.getElementById("announcer");
  if (place) place.textContent = text;
}

import type { Path } from "./schema/tree.js";

/** A variable that a text of the configuration refers to. */
export interface Reference {
  /** Of the text. */
  path: Path;
  /** The variable. */
  name: string;
  /** What it holds; `undefined` if it is not set. */
  value: string | undefined;
}

/** `${NAME}`, or `$${` for a dollar and a brace that mean themselves. */
const REFERENCE = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

/** Whether a text refers to a variable. */
export function hasReference(value: unknown): value is string {
  return typeof value === "string" && value.includes("${");
}

/**
 * Puts the values of environment variables into the texts of a configuration: `${NAME}`, also within a longer text.
 * Keys, numbers and the like hold none; a variable that is not set leaves its text as it is.
 *
 * @param onReference - Hears of every reference.
 */
export function withEnvironment(
  value: unknown,
  environment: Readonly<Record<string, string | undefined>>,
  onReference: (reference: Reference) => void,
  path: Path = [],
): unknown {
  if (hasReference(value)) {
    return value.replace(REFERENCE, (text, name: string | undefined) => {
      if (name === undefined) return "${";
      const found = environment[name];
      onReference({ path, name, value: found });
      return found ?? text;
    });
  }
  return mapTree(value, path, (inner, place) => withEnvironment(inner, environment, onReference, place));
}

/** What a reader made of a configuration, with the references of its source in place of what they stood for. */
export function withReferences(value: unknown, source: unknown): unknown {
  if (hasReference(source) && typeof value === "string") return source;
  return mapTree(value, [], (inner, [step]) => {
    const below = typeof source === "object" && source !== null && Object.hasOwn(source, step as string);
    return withReferences(inner, below ? (source as Record<string, unknown>)[step as string] : undefined);
  });
}

function mapTree(value: unknown, path: Path, map: (inner: unknown, path: Path) => unknown): unknown {
  if (Array.isArray(value)) return value.map((inner, i) => map(inner, [...path, i]));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, map(inner, [...path, key])]));
}

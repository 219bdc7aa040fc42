import { createReadStream } from "node:fs";
import { buffer } from "node:stream/consumers";
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type YAMLParseError,
} from "yaml";
import { HindsearchError } from "../errors.js";
import { type Path, valueAt } from "./schema/tree.js";

/** A configuration is written by hand. */
const MAX_BYTES = 2 ** 20;
/** What aliases may make of it: more is an alias bomb. */
const MAX_ALIASES = 100;

/** The text of a configuration, with the places of its keys and what the command line sets on top. */
export class ConfigurationSource {
  /** What it holds: mappings, lists, texts, numbers, unchecked. */
  readonly tree: Record<string, unknown>;
  readonly #document: Document.Parsed;
  readonly #lines: LineCounter;
  readonly #overrides: { path: Path; text: string }[] = [];

  private constructor(
    readonly name: string,
    document: Document.Parsed,
    lines: LineCounter,
  ) {
    this.#document = document;
    this.#lines = lines;
    this.tree = this.#toTree();
  }

  /**
   * Reads a file.
   *
   * @throws {@link HindsearchError} `IO`; `INVALID_CONFIGURATION` for what is no YAML.
   */
  static async read(file: string): Promise<ConfigurationSource> {
    let text: string;
    try {
      // Not by its size: a pipe has none, and a device no end.
      const bytes = await buffer(createReadStream(file, { end: MAX_BYTES }));
      if (bytes.length > MAX_BYTES) throw new Error(`a configuration has at most ${MAX_BYTES} bytes`);
      text = bytes.toString();
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const why = code === "ENOENT" ? "there is no such file or folder" : message;
      throw new HindsearchError("IO", `Cannot read the configuration ${file}: ${why}.`, { cause });
    }
    return ConfigurationSource.parse(text, file);
  }

  /**
   * @param name - For messages.
   * @throws {@link HindsearchError} `INVALID_CONFIGURATION`.
   */
  static parse(text: string, name: string): ConfigurationSource {
    const lines = new LineCounter();
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
    const [error] = document.errors;
    if (error !== undefined) {
      const { line, col } = lines.linePos(error.pos[0]);
      throw invalid(`${name}, line ${line}, column ${col}: ${problem(error, text)}.`);
    }
    return new ConfigurationSource(name, document, lines);
  }

  /**
   * Sets one value.
   *
   * @param assignment - `a.b=c`: the keys from the top, and the value as YAML.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
   */
  set(assignment: string): void {
    const wrong = (what: string) => new HindsearchError("INVALID_ARGUMENT", `--set ${assignment}: ${what}.`);
    const [, keys, text] = /^([^=]+)=([\s\S]*)$/.exec(assignment) ?? [];
    if (keys === undefined || text === undefined)
      throw wrong("expected key.key=value, e.g. training.steps=100");
    const path = keys.trim().split(".");
    const forbidden = path.find(
      (step) => step === "" || ["__proto__", "constructor", "prototype"].includes(step),
    );
    if (forbidden !== undefined) throw wrong(`"${forbidden}" is no key`);
    const document = parseDocument(text, { prettyErrors: false });
    const [error] = document.errors;
    if (error !== undefined) throw wrong(`the value is no YAML: ${error.message}`);
    setAt(this.tree, path, document.toJS({ maxAliasCount: MAX_ALIASES }), wrong);
    this.#overrides.push({ path, text: keys.trim() });
  }

  /** Where a value or its key stands, e.g. `line 3, column 5`. */
  where(path: Path, { key = false } = {}): string {
    const override = this.#overrides
      .filter((one) => one.path.every((step, i) => String(path[i]) === String(step)))
      .at(-1);
    if (override !== undefined) return `--set ${override.text}`;
    const offset = this.#offset(path, key);
    if (offset === undefined) return this.name;
    const { line, col } = this.#lines.linePos(offset);
    return `line ${line}, column ${col}`;
  }

  /** Of the innermost part of the path that there is. */
  #offset(path: Path, key: boolean): number | undefined {
    let node = this.#document.contents as Node | null | undefined;
    let offset = node?.range?.[0];
    for (const [i, step] of path.entries()) {
      if (isAlias(node)) node = node.resolve(this.#document);
      let next: Node | null | undefined;
      if (isMap(node)) {
        const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
        if (pair === undefined) return offset;
        next = pair.value as Node | null;
        const own = (pair.key as Node).range?.[0];
        offset = (key && i === path.length - 1 ? own : (next?.range?.[0] ?? own)) ?? offset;
      } else if (isSeq(node)) {
        next = node.items[Number(step)] as Node | undefined;
        offset = next?.range?.[0] ?? offset;
      } else return offset;
      node = next;
    }
    return offset;
  }

  #toTree(): Record<string, unknown> {
    let tree: unknown;
    try {
      tree = this.#document.toJS({ maxAliasCount: MAX_ALIASES }) ?? {};
    } catch (cause) {
      throw invalid(`${this.name}: ${(cause as Error).message}.`);
    }
    if (typeof tree === "object" && tree !== null && !Array.isArray(tree))
      return tree as Record<string, unknown>;
    throw invalid(`${this.name} must hold a mapping of keys to values, e.g. "training:".`);
  }
}

/** What the parser found, in words for the one who wrote the file and not for a caller of the parser. */
function problem({ code, message, pos }: YAMLParseError, text: string): string {
  if (code === "MULTIPLE_DOCS") return "a second YAML document begins here; a configuration is one document";
  if (code === "DUPLICATE_KEY") {
    const key = /^[^\s:]*/.exec(text.slice(pos[0]))?.[0] ?? "";
    return `the key ${key} is there already; keys of a mapping are unique`;
  }
  return message.replace(/\.$/, "");
}

function setAt(
  tree: Record<string, unknown>,
  path: readonly string[],
  value: unknown,
  wrong: (what: string) => Error,
) {
  let inner: Record<string, unknown> = tree;
  for (const [i, step] of path.slice(0, -1).entries()) {
    if (!Object.hasOwn(inner, step) || inner[step] === null) inner[step] = {};
    const next = valueAt(inner, [step]);
    if (typeof next !== "object")
      throw wrong(`${path.slice(0, i + 1).join(".")} is ${JSON.stringify(next)} and has no keys`);
    inner = next as Record<string, unknown>;
  }
  inner[path.at(-1) as string] = value;
}

function invalid(message: string): HindsearchError {
  return new HindsearchError("INVALID_CONFIGURATION", message);
}

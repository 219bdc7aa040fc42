import type { z } from "zod";
import { HindsearchError } from "../errors.js";
import { redactSecrets } from "../runs/redact.js";
import type { Reference } from "./environment.js";
import { nearestWord } from "./nearest.js";
import { expectation, kindsOf, type Path, schemaAt, unwrap, valueAt, variantOf } from "./schema/tree.js";
import type { ConfigurationSource } from "./source.js";

type Issue = z.core.$ZodIssue;

/** More would only hide the first. */
const MOST_SHOWN = 10;

/**
 * The error for a configuration that its schema refuses: for each mistake its place, its key, what was found and what was
 * expected, and the nearest key or word where one is misspelt. Values that look secret, and those of variables, are not
 * told.
 */
export function configurationError(
  issues: readonly Issue[],
  schema: z.ZodType,
  source: ConfigurationSource,
  references: readonly Reference[],
): HindsearchError {
  const describer = new Describer(schema, source, references);
  const lines = issues.flatMap((issue) => describer.lines(issue));
  const shown = lines.slice(0, MOST_SHOWN);
  if (lines.length > shown.length) shown.push(`and ${lines.length - shown.length} more.`);
  const text =
    lines.length === 1
      ? `${source.name}, ${lines[0]}`
      : `${source.name} has ${lines.length} mistakes:\n${shown.map((line) => `  ${line}`).join("\n")}`;
  return new HindsearchError("INVALID_CONFIGURATION", text);
}

class Describer {
  constructor(
    private readonly schema: z.ZodType,
    private readonly source: ConfigurationSource,
    private readonly references: readonly Reference[],
  ) {}

  /** One line for each mistake of an issue. */
  lines(issue: Issue): string[] {
    const path = issue.path as Path;
    if (issue.code === "unrecognized_keys") return issue.keys.map((key) => this.#unknownKey(path, key));
    if (issue.code === "invalid_union" && issue.errors.length > 0) return this.#unionLines(path, issue);
    return [this.#wrongValue(path, issue)];
  }

  #unknownKey(path: Path, key: string): string {
    const { tree } = this.source;
    const parent = schemaAt(this.schema, path, tree);
    const variant = parent && variantOf(parent, valueAt(tree, path));
    const known = variant && "shape" in variant ? Object.keys(variant.shape as object) : [];
    const nearest = nearestWord(key, known);
    const hint = nearest === undefined ? `Known are ${known.join(", ")}` : `Did you mean ${nearest}?`;
    const where = this.source.where([...path, key], { key: true });
    return `${where}: ${nameOf([...path, key])} is no key of a configuration. ${hint}${hint.endsWith("?") ? "" : "."}`;
  }

  /** Of the variant that was meant. */
  #unionLines(path: Path, issue: Issue & { code: "invalid_union" }): string[] {
    const value = valueAt(this.source.tree, path);
    const union = schemaAt(this.schema, path, this.source.tree);
    if (union === undefined || typeof value !== "object" || value === null)
      return [this.#wrongValue(path, issue)];
    const { error } = variantOf(union, value).safeParse(value);
    const inner = error?.issues ?? [];
    if (inner.length === 0) return [this.#wrongValue(path, issue)];
    return inner.flatMap((one) => this.lines({ ...one, path: [...path, ...one.path] } as Issue));
  }

  #wrongValue(path: Path, issue: Issue): string {
    const { tree } = this.source;
    const value = valueAt(tree, path);
    const where = this.source.where(path);
    const name = nameOf(path);
    const unset = this.references.find(
      (one) => one.value === undefined && one.path.join("\0") === path.join("\0"),
    );
    if (unset !== undefined) {
      return `${where}: ${name} is ${JSON.stringify(value)}, but the environment variable ${unset.name} is not set.`;
    }
    const schema = schemaAt(this.schema, path, tree);
    const own = issue.code === "custom" || issue.code === "invalid_format";
    const parent = schemaAt(this.schema, path.slice(0, -1), tree);
    const kinds = path.at(-1) === "kind" && parent ? kindsOf(parent) : [];
    const expected =
      kinds.length > 0
        ? `expected one of ${kinds.join(", ")}`
        : own || schema === undefined
          ? issue.message
          : `expected ${expectation(schema)}${unnamedLimit(issue, schema)}`;
    if (value === undefined && issue.code !== "custom") return `${where}: ${name} is missing, ${expected}.`;
    if (issue.code === "custom") return `${where}: ${name}: ${issue.message}.`;
    const nearest = nearestValue(value, kinds.length > 0 ? kinds : schema && wordsOf(schema));
    return `${where}: ${name} is ${found(value, path)}, ${expected}.${nearest ? ` Did you mean ${nearest}?` : ""}`;
  }
}

/** A limit that goes without saying: of the type, or of timers. Whoever is beyond it is told. */
function unnamedLimit(issue: Issue, schema: z.ZodType): string {
  if (issue.code !== "too_big" || issue.origin === "array" || issue.origin === "string") return "";
  return expectation(schema).includes("at most") ? "" : ` and of at most ${issue.maximum}`;
}

function wordsOf(schema: z.ZodType): string[] | undefined {
  const inner = unwrap(schema);
  return "options" in inner && Array.isArray(inner.options)
    ? inner.options.filter((one) => typeof one === "string")
    : undefined;
}

function nearestValue(value: unknown, words: readonly string[] | undefined): string | undefined {
  return typeof value === "string" && words ? nearestWord(value, words) : undefined;
}

/** A value in words, as the file has it: a reference stays one. */
function found(value: unknown, path: Path): string {
  if (value === null) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  // JSON has no word for these.
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  const key = String(path.filter((step) => typeof step === "string").at(-1) ?? "");
  const shown = (redactSecrets({ [key]: value }) as Record<string, unknown>)[key];
  const text = JSON.stringify(shown) ?? String(shown);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** `training.groupSize`, `judge.judges[0].model`. */
export function nameOf(path: Path): string {
  const name = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  return name === "" ? "the configuration" : name.replace(/^\./, "");
}

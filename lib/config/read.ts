import { dirname, resolve } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { HindsearchError } from "../errors.js";
import { redactSecrets } from "../runs/redact.js";
import { type Reference, withEnvironment, withReferences } from "./environment.js";
import { configurationError, nameOf } from "./problems.js";
import { Configuration } from "./schema/configuration.js";
import { type Path, variants } from "./schema/tree.js";
import { ConfigurationSource } from "./source.js";

/** How a configuration is read. */
export interface ReadOptions {
  /** Values on top of the file's: `training.steps=100`, the value as YAML. Default none. */
  set?: readonly string[];
  /** Default `process.env`. */
  environment?: Readonly<Record<string, string | undefined>>;
}

/** Keys of paths: what a variable holds there is no secret. */
const PATHS: readonly unknown[] = [
  "base",
  "folder",
  "corpus",
  "questions",
  "config",
  "tokenizer",
  "command",
  "cwd",
];

/** A configuration that was read and checked. */
export class ReadConfiguration {
  /** Its values, with every default filled in and the environment's values in place. */
  readonly values: Configuration;
  /** Folder that relative paths count from. */
  readonly base: string;
  /** Values of variables that are not to be written anywhere. */
  readonly secrets: readonly string[];
  readonly #source: ConfigurationSource;
  readonly #references: readonly Reference[];

  /** @internal */
  constructor(values: Configuration, source: ConfigurationSource, references: readonly Reference[]) {
    this.values = values;
    this.#source = source;
    this.#references = references;
    const here = dirname(resolve(source.name));
    this.base = values.base === undefined ? here : resolve(here, values.base);
    const secret = references.filter(({ path }) => !path.some((step) => PATHS.includes(step)));
    this.secrets = secret.flatMap(({ value }) => value ?? []);
  }

  /** A path of the configuration; addresses of object stores stay as they are. */
  resolve(path: string): string {
    return /^[a-z][a-z0-9+.-]+:\/\//i.test(path) ? path : resolve(this.base, path);
  }

  /** Where a value stands and what it is called, for messages about it. */
  place(path: Path): string {
    return `${this.#source.name}, ${this.#source.where(path)}: ${nameOf(path)}`;
  }

  /**
   * Makes sure that the variables which a section refers to are set. They are looked at when a section is used, so that
   * an evaluation needs no judge's key.
   *
   * @throws {@link HindsearchError} `INVALID_CONFIGURATION` naming variable, key and place.
   */
  requireVariables(section: keyof Configuration): void {
    const unset = this.#references.find(({ path, value }) => path[0] === section && value === undefined);
    if (unset === undefined) return;
    throw new HindsearchError(
      "INVALID_CONFIGURATION",
      `${this.place(unset.path)} refers to the environment variable ${unset.name}, which is not set.`,
    );
  }

  /**
   * The configuration as YAML that gives the same values wherever it lies: with its defaults, and with references to
   * variables in place of their values; other secrets are left out.
   */
  record(): string {
    return stringify(withoutSecrets(withReferences({ ...this.values, base: this.base }, this.#source.tree)));
  }
}

/**
 * Reads a configuration file.
 *
 * @throws {@link HindsearchError} `INVALID_CONFIGURATION` naming every mistake with its place; `INVALID_ARGUMENT` for a
 * wrong `set`; `IO`.
 */
export async function readConfiguration(file: string, options: ReadOptions = {}): Promise<ReadConfiguration> {
  return checkConfiguration(await ConfigurationSource.read(file), options);
}

/** The same for a source that was read. @internal */
export function checkConfiguration(
  source: ConfigurationSource,
  { set = [], environment = process.env }: ReadOptions = {},
): ReadConfiguration {
  for (const assignment of set) source.set(assignment);
  const references: Reference[] = [];
  const tree = withEnvironment(withSections(source.tree), environment, (reference) =>
    references.push(reference),
  );
  const result = Configuration.safeParse(tree);
  if (result.success) return new ReadConfiguration(result.data, source, references);
  throw configurationError(result.error.issues, Configuration as z.ZodType, source, references);
}

/** A section whose keys are all commented out is there, and empty. */
function withSections(tree: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shape = Configuration.shape as Record<string, z.ZodType>;
  const isSection = (key: string) =>
    Object.hasOwn(shape, key) && variants(shape[key] as z.ZodType).some((one) => one instanceof z.ZodObject);
  return Object.fromEntries(
    Object.entries(tree).map(([key, value]) => [key, value === null && isSection(key) ? {} : value]),
  );
}

/** Mappings whose values are secrets, whatever their keys. */
const SECRET_MAPPINGS: readonly string[] = ["headers", "env", "storageOptions"];

/** A text without secrets, `undefined` if it is one. A text that refers to a variable is none, whatever its key. */
function publicText(text: string, key: string, hidden: boolean): string | undefined {
  const refers = /\$\{\w+\}/.test(text);
  if (hidden && !refers) return undefined;
  const shown = (redactSecrets({ [refers ? "" : key]: text }) as Record<string, string>)[refers ? "" : key];
  return shown === "[redacted]" ? undefined : shown;
}

/** Without secrets: a key that holds one is left out. */
function withoutSecrets(value: unknown, key = "", hidden = false): unknown {
  if (typeof value === "string") return publicText(value, key, hidden);
  if (Array.isArray(value)) return value.map((inner) => withoutSecrets(inner, key, hidden));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(
    ([inner, content]) =>
      [inner, withoutSecrets(content, inner, hidden || SECRET_MAPPINGS.includes(inner))] as const,
  );
  return Object.fromEntries(entries.filter(([, content]) => content !== undefined));
}

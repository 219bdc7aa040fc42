import { z } from "zod";
import { Configuration } from "./schema/configuration.js";
import { choices, expectation, unwrap, variants } from "./schema/tree.js";

/** One key of a configuration. */
export interface KeyRow {
  /** From the top, e.g. `training.kl.weight`. */
  key: string;
  /** What it may be. */
  expected: string;
  /** `undefined` if it has none: it is required, or its text says what happens without it. */
  default: unknown;
  /** Whether it must be given. */
  required: boolean;
  /** What it is for. */
  text: string;
}

/** Keys that belong together: a mapping, or one of its variants. */
export interface KeySection {
  /** `training`, or `judge, kind chat`. */
  title: string;
  /** What it is for. */
  text: string;
  /** Its keys, nested ones with dots. */
  rows: KeyRow[];
}

/** Mappings with a section of their own. */
const SHARED: readonly string[] = ["retriever", "embedding", "rerank", "judges"];

/** All keys of a configuration, from its schema. */
export function configurationSections(): KeySection[] {
  const shape = Configuration.shape as Record<string, z.ZodType>;
  const sections: KeySection[] = [{ title: "", text: "", rows: [] }];
  for (const [name, schema] of Object.entries(shape)) {
    (sections[0] as KeySection).rows.push(rowOf(name, schema));
    sections.push(...sectionsOf(name, schema));
  }
  for (const name of ["embedding", "rerank"]) sections.push(...sectionsOf(name, fieldOfIndex(name)));
  return sections;
}

/** A configuration as a JSON Schema, for editors. */
export function configurationJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(Configuration, { io: "input" });
  return { ...schema, title: "Configuration of hindsearch" };
}

function sectionsOf(name: string, schema: z.ZodType): KeySection[] {
  const inner = unwrap(schema);
  const one = inner instanceof z.ZodArray ? (inner.element as z.ZodType) : schema;
  const all = variants(one).filter((variant) => variant instanceof z.ZodObject);
  return all.map((variant) => {
    const kind = choices((variant.shape as Record<string, z.ZodType>).kind)?.[0];
    const kindText =
      kind === undefined ? undefined : textOf((variant.shape as Record<string, z.ZodType>).kind as z.ZodType);
    return {
      title: kind === undefined ? name : `${name}, kind ${String(kind)}`,
      text: kindText ?? textOf(schema),
      rows: rowsOf(name, variant).filter(({ key }) => key !== `${name}.kind`),
    };
  });
}

/** Keys of a mapping and of the mappings in it. */
function rowsOf(prefix: string, schema: z.ZodObject): KeyRow[] {
  const rows = Object.entries(schema.shape as Record<string, z.ZodType>).flatMap(([name, field]) =>
    fieldRows(`${prefix}.${name}`, name, field),
  );
  // The variants of a mapping have keys in common.
  return [...new Map(rows.map((row) => [row.key, row])).values()];
}

function fieldRows(key: string, name: string, field: z.ZodType): KeyRow[] {
  const row = rowOf(key, field);
  if (SHARED.includes(name)) return [{ ...row, expected: `as ${name.replace(/s$/, "")}` }];
  const inner = variants(field)
    .filter((variant) => variant instanceof z.ZodObject)
    .map((variant) => rowsOf(key, variant).filter((one) => !one.key.endsWith(".kind")));
  if (inner.flat().every(({ text }) => text !== "")) return [row, ...inner.flat()];
  // What is explained as a whole.
  const names = (rows: readonly KeyRow[]) => rows.map((one) => one.key.slice(key.length + 1)).join(", ");
  return [{ ...row, expected: `${row.expected}: ${inner.map(names).join("; or ")}` }];
}

function rowOf(key: string, field: z.ZodType): KeyRow {
  const preset = defaultOf(field);
  return {
    key,
    expected: expectation(field),
    default: preset,
    required: preset === undefined && field.safeParse(undefined).success === false,
    text: textOf(field),
  };
}

function textOf(schema: z.ZodType): string {
  const own = schema.meta()?.description;
  if (own !== undefined) return own;
  const inner = unwrap(schema);
  return inner === schema ? "" : textOf(inner);
}

/** Of a mapping none: its keys have theirs. */
function defaultOf(field: z.ZodType): unknown {
  const parsed = field.safeParse(undefined);
  const value = parsed.success && parsed.data !== undefined ? parsed.data : field.meta()?.default;
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  return isMapping && !("kind" in value && Object.keys(value).length === 1) ? undefined : value;
}

/** What several retrievers have is listed once. */
function fieldOfIndex(name: string): z.ZodType {
  const kinds = variants((Configuration.shape as Record<string, z.ZodType>).retriever as z.ZodType);
  const index = kinds.find((kind) => kind instanceof z.ZodObject && "embedding" in kind.shape) as z.ZodObject;
  return index.shape[name] as z.ZodType;
}

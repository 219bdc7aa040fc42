import { z } from "zod";

/** A place in a configuration. */
export type Path = readonly (string | number)[];

/** A schema without what makes it optional or gives it a default. */
export function unwrap(schema: z.ZodType): z.ZodType {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodNullable
  ) {
    return unwrap(schema.unwrap() as z.ZodType);
  }
  return schema;
}

/** The variants of a union, unwrapped; of anything else itself. */
export function variants(schema: z.ZodType): z.ZodType[] {
  const inner = unwrap(schema);
  return inner instanceof z.ZodUnion
    ? inner.options.flatMap((option) => variants(option as z.ZodType))
    : [inner];
}

/** The values that a schema lists; `undefined` if it lists none. */
export function choices(schema: z.ZodType | undefined): readonly unknown[] | undefined {
  const inner = schema && unwrap(schema);
  if (inner instanceof z.ZodEnum) return inner.options;
  return inner instanceof z.ZodLiteral ? [...inner.values] : undefined;
}

/** The names by which the variants of a discriminated union are told apart. */
export function kindsOf(schema: z.ZodType): string[] {
  return variants(schema).flatMap((variant) =>
    variant instanceof z.ZodObject ? ((choices(variant.shape.kind) ?? []) as string[]) : [],
  );
}

/** The variant that a value means: by its `kind`, else the object that shares most of its keys, else the first. */
export function variantOf(schema: z.ZodType, value: unknown): z.ZodType {
  const all = variants(schema);
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMapping) return all.find((variant) => !(variant instanceof z.ZodObject)) ?? (all[0] as z.ZodType);
  const score = (variant: z.ZodType) => {
    if (!(variant instanceof z.ZodObject)) return -1;
    const kind = (value as { kind?: unknown }).kind;
    if (choices(variant.shape.kind)?.includes(kind)) return Number.POSITIVE_INFINITY;
    return Object.keys(value).filter((key) => Object.hasOwn(variant.shape, key)).length;
  };
  return all.reduce((best, variant) => (score(variant) > score(best) ? variant : best));
}

/** The schema of a place, for the variants that the value has; `undefined` if there is no such place. */
export function schemaAt(schema: z.ZodType, path: Path, value: unknown): z.ZodType | undefined {
  const [step, ...rest] = path;
  if (step === undefined) return schema;
  const here = variantOf(schema, value);
  let inner: z.ZodType | undefined;
  if (here instanceof z.ZodObject) inner = Object.hasOwn(here.shape, step) ? here.shape[step] : undefined;
  else if (here instanceof z.ZodArray) inner = here.element as z.ZodType;
  else if (here instanceof z.ZodRecord) inner = here.valueType as z.ZodType;
  else if (here instanceof z.ZodTuple) inner = here.def.items[Number(step)] as z.ZodType | undefined;
  return inner && schemaAt(inner, rest, valueAt(value, [step]));
}

/** The value of a place; `undefined` if there is none. */
export function valueAt(value: unknown, path: Path): unknown {
  let inner = value;
  for (const step of path) {
    if (typeof inner !== "object" || inner === null || !Object.hasOwn(inner, step)) return undefined;
    inner = (inner as Record<string | number, unknown>)[step];
  }
  return inner;
}

/** What a schema expects, in words. */
export function expectation(schema: z.ZodType): string {
  const all = variants(schema);
  const kinds = kindsOf(schema);
  const orNull = schema.safeParse(null).success ? " or null" : "";
  if (kinds.length > 0) return `a mapping whose kind is one of ${kinds.join(", ")}`;
  return [...new Set(all.map(expected))].join(" or ") + orNull;
}

function expected(schema: z.ZodType): string {
  const listed = choices(schema);
  if (listed !== undefined) return listed.length === 1 ? String(listed[0]) : `one of ${listed.join(", ")}`;
  if (schema instanceof z.ZodNumber) return numberExpected(schema);
  if (schema instanceof z.ZodBoolean) return "true or false";
  if (schema instanceof z.ZodURL) return "an address (http or https)";
  if (schema.def.type === "string") return "text that is not empty";
  if (schema instanceof z.ZodArray) return `a list of ${expectation(schema.element as z.ZodType)}`;
  if (schema instanceof z.ZodTuple) return `a list of ${schema.def.items.length}`;
  return schema instanceof z.ZodObject || schema instanceof z.ZodRecord
    ? "a mapping of keys to values"
    : "a value";
}

function numberExpected({ minValue, maxValue, isInt, def }: z.ZodNumber): string {
  const limits = (def.checks ?? []).map((check) => check._zod.def as { check: string; inclusive?: boolean });
  const inclusive = (name: string) => limits.find(({ check }) => check === name)?.inclusive !== false;
  const least = isLimit(minValue) ? `${inclusive("greater_than") ? "of at least" : "above"} ${minValue}` : "";
  const most = isLimit(maxValue) ? `${inclusive("less_than") ? "of at most" : "below"} ${maxValue}` : "";
  return `${isInt ? "a whole number" : "a number"} ${[least, most].filter(Boolean).join(" and ")}`.trim();
}

/** What a timer can wait, in milliseconds: it and the borders of safe integers are no limits that anyone asks about. */
const LONGEST_TIMER = 2 ** 31 - 1;

function isLimit(value: number | null): value is number {
  return value !== null && Math.abs(value) < LONGEST_TIMER;
}

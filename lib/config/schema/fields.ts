import { z } from "zod";

/** The fields of an object. */
export type Shape = Readonly<Record<string, z.ZodType>>;

/** What a field is for; with a default where the library fills it in behind the schema. */
export type FieldText = string | { text: string; default: unknown };

/**
 * The fields of a shape with what they are for. Types, limits and defaults stay those of the library's own schema; the
 * compiler asks for a text for each field, and for no other.
 */
export function described<Fields extends Shape>(
  shape: Fields,
  texts: Readonly<Record<keyof Fields & string, FieldText>>,
): Fields {
  return Object.fromEntries(
    Object.entries(shape).map(([name, schema]) => {
      const text = texts[name] as FieldText;
      return [name, schema.meta(typeof text === "string" ? { description: text } : asMeta(text))];
    }),
  ) as unknown as Fields;
}

function asMeta({ text, ...rest }: Exclude<FieldText, string>) {
  return { description: text, ...rest };
}

/** A shape without some fields: those that a file cannot hold, such as functions. */
export function without<Fields extends Shape, Name extends keyof Fields & string>(
  shape: Fields,
  ...names: readonly Name[]
): Omit<Fields, Name> {
  return Object.fromEntries(
    Object.entries(shape).filter(([name]) => !(names as readonly string[]).includes(name)),
  ) as unknown as Omit<Fields, Name>;
}

/** A path; a relative one counts from the folder of the configuration. */
export const path = z.string().min(1);

/** A whole number of at least 1. */
export const count = z.int().min(1);

/** What a schema calls a variant: the literal of its `kind`. */
export const kind = <Name extends string>(name: Name, description: string) =>
  z.literal(name).meta({ description });

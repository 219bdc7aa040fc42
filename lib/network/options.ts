import type { z } from "zod";
import { HindsearchError } from "../errors.js";

/**
 * Checks the options of a client against their schema, unknown ones included.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming each wrong option. Values are never printed: some are secret.
 * @internal
 */
export function parseOptions<Schema extends z.ZodType>(
  schema: Schema,
  options: unknown,
  owner: string,
): z.output<Schema> {
  const result = schema.safeParse(options);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  throw new HindsearchError("INVALID_ARGUMENT", `Wrong options of ${owner}: ${problems.join("; ")}.`);
}

import { z } from "zod";
import { HindsearchError } from "../errors.js";
import { RETRY_DEFAULTS } from "./retry.js";

/** A whole number of milliseconds that a timer can wait. */
export const milliseconds = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);

/** A whole number of at least 1. */
export const count = z.int().min(1);

/** An http or https address without user and password. */
export const endpoint = z
  .url({ protocol: /^https?$/, error: "must be an http or https address" })
  .refine(hasNoCredentials, "must not hold a user or a password");

/** Header values; all are treated as secrets. */
export const headers = z.record(z.string(), z.string()).default({});

/** Of `RetryOptions`. */
export const retryShape = {
  retries: z.int().min(0).default(RETRY_DEFAULTS.retries),
  baseDelayMs: milliseconds.default(RETRY_DEFAULTS.baseDelayMs),
  maxDelayMs: milliseconds.default(RETRY_DEFAULTS.maxDelayMs),
  maxRetryAfterMs: milliseconds.default(RETRY_DEFAULTS.maxRetryAfterMs),
};

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

function hasNoCredentials(url: string): boolean {
  if (!URL.canParse(url)) return true; // The schema complains already.
  const { username, password } = new URL(url);
  return username === "" && password === "";
}

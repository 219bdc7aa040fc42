import { z } from "zod";
import { endpoint, headers } from "../../network/options.js";
import { type PostTarget, postTarget } from "../../network/post-json.js";

/** Where a sink posts to. */
export interface HttpSinkOptions {
  /** Sent as `Authorization: Bearer`. Default: the environment variable that the sink names, else nothing. */
  apiKey?: string | undefined;
  /** Further request headers. Their values are treated as secrets. */
  headers?: Record<string, string> | undefined;
}

/** Of {@link HttpSinkOptions}, for a sink's schema. @internal */
export const httpSinkShape = { url: endpoint, apiKey: z.string().min(1).optional(), headers };

/** Connections that a sink closes at its end. @internal */
export function sinkTarget(
  options: z.output<z.ZodObject<typeof httpSinkShape>>,
  environment: string,
): PostTarget {
  const limits = { timeoutMs: 10_000, maxResponseBytes: 2 ** 20, concurrency: 1 };
  return postTarget({ ...options, ...limits }, environment);
}

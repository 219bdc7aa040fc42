import { Agent, request } from "undici";
import { connectionFailure } from "./connection-failure.js";
import { type AnswerLimits, type RawAnswer, readAcceptance, readJsonAnswer } from "./json-answer.js";
import { AttemptError } from "./retry.js";
import { requestSecrets, Scrubber } from "./secrets.js";

/** Where and how {@link postJson} asks. */
export interface PostTarget extends AnswerLimits {
  url: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  /** What of all that must be shown nowhere. */
  secrets: readonly string[];
  dispatcher: Agent;
}

/** What {@link postTarget} needs of a client's checked options. */
interface TargetOptions {
  url: string;
  apiKey?: string | undefined;
  headers: Record<string, string>;
  timeoutMs: number;
  maxResponseBytes: number;
  concurrency: number;
}

/**
 * A target with connections of its own, which whoever asked for it closes.
 *
 * @param environment - Name of the variable that holds the key if no option does.
 * @internal
 */
export function postTarget(options: TargetOptions, environment: string): PostTarget {
  const { url, timeoutMs, maxResponseBytes, concurrency } = options;
  const headers = Object.fromEntries(
    Object.entries(options.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  // What the caller says wins over the environment, in whichever option he says it.
  const fromEnvironment = "authorization" in headers ? undefined : process.env[environment] || undefined;
  const apiKey = options.apiKey ?? fromEnvironment;
  const secrets = requestSecrets({ apiKey, headers, url });
  return {
    url,
    secrets,
    headers: apiKey === undefined ? headers : { ...headers, authorization: `Bearer ${apiKey}` },
    dispatcher: new Agent({ connections: concurrency, connectTimeout: timeoutMs }),
    maxResponseBytes,
    scrubber: new Scrubber(secrets),
  };
}

/** An address for messages: without the query, which may hold a key. @internal */
export function addressOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/**
 * One POST of a JSON value, answered by a JSON value. Redirects are not followed, and compression is not asked for. The
 * signal is the only deadline.
 *
 * @throws {@link AttemptError} on anything but a 2xx status with a JSON body, also when the signal cut it short.
 * @internal
 */
export function postJson(target: PostTarget, body: unknown, signal: AbortSignal): Promise<unknown> {
  return post(target, body, signal, readJsonAnswer);
}

/**
 * One POST of a JSON value to somebody who need not answer anything but a 2xx status. Otherwise as {@link postJson}.
 *
 * @throws {@link AttemptError} on any other status, also when the signal cut it short.
 * @internal
 */
export function deliverJson(target: PostTarget, body: unknown, signal: AbortSignal): Promise<void> {
  return post(target, body, signal, readAcceptance);
}

async function post<T>(
  target: PostTarget,
  body: unknown,
  signal: AbortSignal,
  read: (answer: RawAnswer, limits: AnswerLimits) => Promise<T>,
): Promise<T> {
  try {
    const { statusCode, headers, ...response } = await request(target.url, {
      method: "POST",
      headers: {
        ...target.headers,
        "content-type": "application/json",
        accept: "application/json",
        "accept-encoding": "identity",
      },
      body: JSON.stringify(body),
      dispatcher: target.dispatcher,
      signal,
      // The caller's deadline holds for the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    return await read({ status: statusCode, headers, body: response.body }, target);
  } catch (error) {
    if (error instanceof AttemptError) throw error;
    const { message, retryable } = connectionFailure(error);
    throw new AttemptError(target.scrubber.scrub(message), { retryable });
  }
}

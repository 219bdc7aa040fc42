import { type Dispatcher, request } from "undici";
import { type AnswerLimits, readJsonAnswer } from "./json-answer.js";
import { AttemptError } from "./retry.js";

/** Where and how {@link postJson} asks. */
export interface PostTarget extends AnswerLimits {
  url: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  dispatcher: Dispatcher;
}

/**
 * One POST of a JSON value, answered by a JSON value. Redirects are not followed, and compression is not asked for. The
 * signal is the only deadline.
 *
 * @throws {@link AttemptError} on anything but a 2xx status with a JSON body, also when the signal cut it short.
 * @internal
 */
export async function postJson(target: PostTarget, body: unknown, signal: AbortSignal): Promise<unknown> {
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
    return await readJsonAnswer({ status: statusCode, headers, body: response.body }, target);
  } catch (cause) {
    if (cause instanceof AttemptError) throw cause;
    const reason = target.scrubber.scrub(
      (cause as Error).message || String((cause as { code?: unknown }).code),
    );
    throw new AttemptError(`connection failed: ${reason}`, { retryable: true, cause });
  }
}

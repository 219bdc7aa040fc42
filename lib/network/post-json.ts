import { isUtf8 } from "node:buffer";
import { type Dispatcher, request } from "undici";
import { withDeadline } from "../abort.js";
import { AttemptError, isRetryableStatus, parseRetryAfter, type Retrier } from "./retry.js";
import type { Scrubber } from "./secrets.js";

/** Where and how {@link postJson} asks. */
export interface PostTarget {
  url: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  dispatcher: Dispatcher;
  timeoutMs: number;
  /** Most bytes of a response body. */
  maxResponseBytes: number;
  scrubber: Scrubber;
}

/** How much of a refusal's body is read for the message. */
const EXCERPT_BYTES = 4096;

/**
 * One POST of a JSON value, answered by a JSON value. Redirects are not followed, and compression is not asked for nor
 * accepted, so that the cap holds for what reaches memory.
 *
 * @throws {@link AttemptError} on anything but a 2xx status with a JSON body, also when the signal cut it short; that
 * the {@link Retrier} tells apart.
 * @internal
 */
export async function postJson(
  target: PostTarget,
  body: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const { timeoutMs } = target;
  return withDeadline(timeoutMs, signal, async (inner, timedOut) => {
    try {
      return await exchange(target, JSON.stringify(body), inner);
    } catch (cause) {
      if (cause instanceof AttemptError) throw cause;
      if (timedOut()) {
        throw new AttemptError(`no complete answer within ${timeoutMs} ms`, { retryable: true, cause });
      }
      const reason = target.scrubber.scrub(
        (cause as Error).message || String((cause as { code?: unknown }).code),
      );
      throw new AttemptError(`connection failed: ${reason}`, { retryable: true, cause });
    }
  });
}

async function exchange(target: PostTarget, body: string, signal: AbortSignal): Promise<unknown> {
  const { url, dispatcher, maxResponseBytes, scrubber } = target;
  const response = await request(url, {
    method: "POST",
    headers: {
      ...target.headers,
      "content-type": "application/json",
      accept: "application/json",
      "accept-encoding": "identity",
    },
    body,
    dispatcher,
    signal,
    // The deadline above holds for the whole exchange.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const status = response.statusCode;
  const header = (name: string) => {
    const value = response.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  if (status < 200 || status > 299) {
    const start = await readUpTo(response.body, EXCERPT_BYTES);
    throw new AttemptError(refusal(status, header("location"), start.bytes.toString(), scrubber), {
      retryable: isRetryableStatus(status),
      status,
      retryAfterMs: isRetryableStatus(status) ? parseRetryAfter(header("retry-after")) : undefined,
    });
  }
  const encoding = header("content-encoding");
  if (encoding !== undefined && encoding !== "identity") {
    await readUpTo(response.body, 0);
    throw new AttemptError(
      `the answer is compressed (${scrubber.excerpt(encoding)}) although that was not asked for`,
      { retryable: false, status },
    );
  }
  const { bytes, complete } = await readUpTo(response.body, maxResponseBytes);
  if (!complete) {
    throw new AttemptError(`the answer has more than maxResponseBytes (${maxResponseBytes}) bytes`, {
      retryable: false,
      status,
    });
  }
  return parseJson(bytes, header("content-type"), scrubber);
}

async function readUpTo(body: Dispatcher.ResponseData["body"], limit: number) {
  const chunks: Buffer[] = [];
  let total = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    total += chunk.length;
    // Leaving the loop destroys the body and with it the connection.
    if (total > limit) return { bytes: Buffer.concat(chunks).subarray(0, limit), complete: false };
  }
  return { bytes: Buffer.concat(chunks), complete: true };
}

function refusal(status: number, location: string | undefined, body: string, scrubber: Scrubber): string {
  if (status >= 300 && status <= 399) {
    const origin = URL.canParse(location ?? "") ? ` to ${new URL(location as string).origin}` : "";
    return `status ${status}: the server redirects${origin}, and redirects are not followed; use the final address`;
  }
  return body.trim() === "" ? `status ${status}` : `status ${status}: ${scrubber.excerpt(body)}`;
}

/** What is no JSON was not written by the service but by something in between, so another attempt may get through. */
function parseJson(bytes: Buffer, type: string | undefined, scrubber: Scrubber): unknown {
  const text = bytes.toString();
  try {
    if (isUtf8(bytes)) return JSON.parse(text);
  } catch {
    // Not passed on as a cause: its message quotes the text, and with it any secret that the server repeats.
  }
  const kind = type === undefined ? "without a content type" : `of type ${scrubber.excerpt(type)}`;
  throw new AttemptError(
    `status 200, but the answer is not JSON: ${kind}, ${bytes.length} bytes, beginning ${scrubber.excerpt(text)}`,
    { retryable: true, status: 200 },
  );
}

import { isUtf8 } from "node:buffer";
import { AttemptError, isRetryableStatus, parseRetryAfter } from "./retry.js";
import type { Scrubber } from "./secrets.js";

/** A server's answer before its body is read, from whatever client received it. */
export interface RawAnswer {
  status: number;
  /** Lower-case names. */
  headers: Record<string, string | string[] | undefined>;
  /** Leaving a loop over it gives up the rest. */
  body: AsyncIterable<Uint8Array>;
}

/** What {@link readJsonAnswer} needs to know of a client. */
export interface AnswerLimits {
  /** Most bytes of the body. */
  maxResponseBytes: number;
  scrubber: Scrubber;
}

/** How much of a refusal's body is read for the message. */
const EXCERPT_BYTES = 4096;

/**
 * Reads the JSON value that a server answered. Compression is refused, so that the cap holds for what reaches memory.
 *
 * @throws {@link AttemptError} on anything but a 2xx status with a JSON body within the limits.
 * @internal
 */
export async function readJsonAnswer(answer: RawAnswer, limits: AnswerLimits): Promise<unknown> {
  const { status, headers, body } = answer;
  const { maxResponseBytes, scrubber } = limits;
  await refuseStatus(answer, limits);
  const encoding = header(headers, "content-encoding");
  if (encoding !== undefined && encoding !== "identity") {
    await readUpTo(body, 0);
    throw new AttemptError(
      `the answer is compressed (${scrubber.excerpt(encoding)}) although that was not asked for`,
      { retryable: false, status },
    );
  }
  const { bytes, complete } = await readUpTo(body, maxResponseBytes);
  if (!complete) {
    throw new AttemptError(`the answer has more than maxResponseBytes (${maxResponseBytes}) bytes`, {
      retryable: false,
      status,
    });
  }
  return parseJson(bytes, header(headers, "content-type"), scrubber);
}

/**
 * Reads an answer of which the status alone counts.
 *
 * @throws {@link AttemptError} on anything but a 2xx status.
 * @internal
 */
export async function readAcceptance(answer: RawAnswer, limits: AnswerLimits): Promise<void> {
  await refuseStatus(answer, limits);
  await readUpTo(answer.body, EXCERPT_BYTES);
}

async function refuseStatus({ status, headers, body }: RawAnswer, { scrubber }: AnswerLimits): Promise<void> {
  if (status >= 200 && status <= 299) return;
  const start = await readUpTo(body, EXCERPT_BYTES);
  throw new AttemptError(refusal(status, header(headers, "location"), start.bytes.toString(), scrubber), {
    retryable: isRetryableStatus(status),
    status,
    retryAfterMs: isRetryableStatus(status) ? parseRetryAfter(header(headers, "retry-after")) : undefined,
  });
}

function header(headers: RawAnswer["headers"], name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

async function readUpTo(body: AsyncIterable<Uint8Array>, limit: number) {
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of body) {
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

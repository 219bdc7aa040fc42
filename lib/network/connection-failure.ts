/** An answer that is refused whatever its content, so that no other attempt is made. */
export class RefusedAnswer extends Error {}

/** Codes and messages of Node, undici and the clients that hide undici's codes. */
const HEADERS_TOO_LARGE = /header(s)?[ _]overflow/i;

/** Why there is no answer to a request. */
export interface ConnectionFailure {
  /** The innermost message. */
  reason: string;
  /** The same for an error: whose message it is. */
  message: string;
  /** Whether another attempt may end otherwise. */
  retryable: boolean;
}

/**
 * What went wrong with a request to which there is no answer. Clients wrap errors in errors whose own messages say only
 * that something did; none of them is fit to be passed on as a cause, since they may hold what was sent and received.
 *
 * @internal
 */
export function connectionFailure(error: unknown): ConnectionFailure {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (inner instanceof RefusedAnswer) return refused(inner.message);
  const { code, message } = inner as { code?: unknown; message?: string };
  if (code === "UND_ERR_RES_EXCEEDED_MAX_SIZE")
    return refused("the answer has more than maxResponseBytes bytes");
  if (HEADERS_TOO_LARGE.test(`${code} ${message}`)) return refused("the answer's headers are too large");
  const reason = message || String(code ?? inner);
  return { reason, message: `connection failed: ${reason}`, retryable: true };
}

function refused(reason: string): ConnectionFailure {
  return { reason, message: reason, retryable: false };
}

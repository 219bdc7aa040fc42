import { Agent, DecoratorHandler, type Dispatcher } from "undici";

/** A response that is refused whatever its content. */
class RefusedResponse extends Error {}

/**
 * Connections for clients that read responses by `fetch`, which has no limits of its own: responses above the size are cut
 * off, and compressed ones, which can be a thousand times larger than they look, are refused. Deadlines are the
 * caller's.
 *
 * @internal
 */
export function limitedAgent(limits: { connections: number; maxResponseBytes: number }): Dispatcher {
  const agent = new Agent({
    connections: limits.connections,
    maxResponseSize: limits.maxResponseBytes,
    connectTimeout: 0,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return agent.compose(
    (dispatch) => (options, handler) =>
      dispatch(options, new RefuseCompression(handler) as Dispatcher.DispatchHandler),
  );
}

type ResponseStart = Parameters<Required<Dispatcher.DispatchHandler>["onResponseStart"]>;

/** As it is; its types lack the methods. */
const Decorator = DecoratorHandler as unknown as new (
  handler: Dispatcher.DispatchHandler,
) => { onResponseStart(...response: ResponseStart): void };

class RefuseCompression extends Decorator {
  override onResponseStart(...response: ResponseStart): void {
    const encoding = response[2]["content-encoding"] ?? "identity";
    if (encoding !== "identity") {
      throw new RefusedResponse(`the answer is compressed (${encoding}) although that was not asked for`);
    }
    super.onResponseStart(...response);
  }
}

/**
 * What went wrong under a rejected `fetch`, whose own message says only that it did.
 *
 * @returns The innermost message, and whether another attempt may end otherwise.
 * @internal
 */
export function fetchFailure(error: unknown): { reason: string; retryable: boolean } {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  const { code, message } = inner as { code?: string; message?: string };
  const tooLarge = code === "UND_ERR_RES_EXCEEDED_MAX_SIZE";
  const reason = tooLarge
    ? "the answer has more than maxResponseBytes bytes"
    : message || String(code ?? inner);
  return { reason, retryable: !tooLarge && !(inner instanceof RefusedResponse) };
}

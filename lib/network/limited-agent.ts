import { Agent, DecoratorHandler, type Dispatcher } from "undici";
import { RefusedAnswer } from "./connection-failure.js";

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

/** How a response begins. */
export interface ResponseHead {
  status: number;
  /** Lower-case names. */
  headers: Record<string, string | string[] | undefined>;
}

/**
 * The same connections, for one request whose response's head is told: clients drop it with a status that they do not
 * expect.
 *
 * @internal
 */
export function hearing(agent: Dispatcher, hear: (head: ResponseHead) => void): Dispatcher {
  return agent.compose(
    (dispatch) => (options, handler) =>
      dispatch(options, new HearResponse(handler, hear) as Dispatcher.DispatchHandler),
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
      throw new RefusedAnswer(`the answer is compressed (${encoding}) although that was not asked for`);
    }
    super.onResponseStart(...response);
  }
}

class HearResponse extends Decorator {
  readonly #hear: (head: ResponseHead) => void;

  constructor(handler: Dispatcher.DispatchHandler, hear: (head: ResponseHead) => void) {
    super(handler);
    this.#hear = hear;
  }

  override onResponseStart(...response: ResponseStart): void {
    this.#hear({ status: response[1], headers: response[2] });
    super.onResponseStart(...response);
  }
}

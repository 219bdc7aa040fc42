import { once } from "node:events";
import type { ServerResponse } from "node:http";

/** An answer as server-sent events, as OpenAI's clients read it. */
export class EventStream {
  readonly #response: ServerResponse;

  /** Sends the head: clients with a time-out for the first byte must not wait for the first token. */
  constructor(response: ServerResponse) {
    this.#response = response;
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      // A proxy that gathers the answer would take the point out of it.
      "x-accel-buffering": "no",
    });
    response.flushHeaders();
  }

  /** Sends an object. What a reader leaves unread is bounded by the tokens of its request. */
  send(body: object | undefined): void {
    if (body !== undefined) this.#response.write(`data: ${JSON.stringify(body)}\n\n`);
  }

  /** Sends the end, and waits until it has been handed over: until then the request counts as at work. */
  async end(): Promise<void> {
    const handedOver = Promise.race([once(this.#response, "finish"), once(this.#response, "close")]);
    this.#response.end("data: [DONE]\n\n");
    await handedOver;
  }
}

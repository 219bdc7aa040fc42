import type { ServerResponse } from "node:http";

/** An answer as server-sent events, as OpenAI's clients read it. */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #stallMs: number;
  /** While the client has not taken what was sent. */
  #taken: Promise<void> | undefined;

  /**
   * Sends the head: clients with a time-out for the first byte must not wait for the first token.
   *
   * @param stallMs - A client that takes nothing for so long is hung up on.
   */
  constructor(response: ServerResponse, stallMs: number) {
    this.#response = response;
    this.#stallMs = stallMs;
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      // A proxy that gathers the answer would take the point out of it.
      "x-accel-buffering": "no",
    });
    response.flushHeaders();
  }

  /**
   * Sends an object.
   *
   * @returns When the client has taken what was sent, if the system's own buffers are full; until then nothing more is to be
   * made for it.
   */
  send(body: object | undefined): Promise<void> | undefined {
    if (body === undefined) return undefined;
    if (!this.#response.write(`data: ${JSON.stringify(body)}\n\n`)) this.#taken ??= this.#wait("drain");
    return this.#taken;
  }

  /** Sends the end, and waits until it has been handed over: until then the request counts as at work. */
  async end(): Promise<void> {
    const handedOver = this.#wait("finish");
    this.#response.end("data: [DONE]\n\n");
    await handedOver;
  }

  /** Until the event, or the end of the connection. */
  #wait(event: "drain" | "finish"): Promise<void> {
    const { socket } = this.#response;
    socket?.setTimeout(this.#stallMs);
    return new Promise((resolve) => {
      const over = () => {
        this.#response.off(event, over).off("close", over);
        this.#taken = undefined;
        // Behind the end Node has set the time-out of idle connections.
        if (!this.#response.writableEnded) socket?.setTimeout(0);
        resolve();
      };
      this.#response.once(event, over).once("close", over);
    });
  }
}

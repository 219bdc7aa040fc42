import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, vi } from "vitest";

/** One request as it arrived. */
export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** The parsed JSON body; an array of values if it is JSON Lines. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it freely
  body: any;
  /** `performance.now()` at arrival. */
  at: number;
}

/** Answers a request, or misbehaves. `index` counts requests from 0. */
export type Handler = (
  request: ReceivedRequest,
  response: ServerResponse,
  index: number,
) => void | Promise<void>;

function parseBody(text: string, type = ""): unknown {
  if (!type.includes("ndjson")) return JSON.parse(text);
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/** A real HTTP server on a free loopback port that keeps what it was asked. */
export class LoopbackServer implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = [];
  /** Requests without a finished answer, now and at most. */
  inFlight = 0;
  peak = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const request: ReceivedRequest = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: text === "" ? undefined : parseBody(text, incoming.headers["content-type"]),
      at: performance.now(),
    };
    this.requests.push(request);
    this.inFlight++;
    this.peak = Math.max(this.peak, this.inFlight);
    response.once("close", () => this.inFlight--);
    await this.handler(request, response, this.requests.length - 1);
  });

  private constructor(public handler: Handler) {}

  static async start(handler: Handler): Promise<LoopbackServer> {
    const server = new LoopbackServer(handler);
    server.#server.on("connection", (socket) => {
      server.#sockets.add(socket);
      socket.once("close", () => server.#sockets.delete(socket));
    });
    await new Promise<void>((ready) => server.#server.listen(0, "127.0.0.1", ready));
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Milliseconds between the arrivals of successive requests. */
  get gaps(): number[] {
    return this.requests.slice(1).map(({ at }, i) => at - (this.requests[i]?.at ?? 0));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((closed) => this.#server.close(closed));
  }
}

/** Sends a JSON value. */
export function sendJson(response: ServerResponse, value: unknown, status = 200, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(value));
}

/**
 * A server for each test of the calling file, in `current`. Tests get ten seconds: one that waits for a server waits for
 * ever.
 */
export function loopbackServer(handler: Handler): { current: LoopbackServer } {
  vi.setConfig({ testTimeout: 10_000 });
  const server = {} as { current: LoopbackServer };
  beforeEach(async () => {
    server.current = await LoopbackServer.start(handler);
  });
  afterEach(() => server.current[Symbol.asyncDispose]());
  return server;
}

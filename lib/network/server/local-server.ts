import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { onAbort, withDeadline } from "../../abort.js";
import { HindsearchError } from "../../errors.js";
import { emitWarning } from "../../warning.js";
import { foreignReason } from "../secrets.js";
import { Access } from "./access.js";
import { RefusedRequest } from "./refused-request.js";

/**
 * Settings that every server has, for its schema. Times are in milliseconds.
 *
 * @internal
 */
export const serverShape = {
  host: z.string().min(1).default("127.0.0.1"),
  token: z.string().min(1).optional(),
  onError: z.custom<(error: unknown) => void>((value) => typeof value === "function").optional(),
  signal: z.instanceof(AbortSignal).optional(),
};

/** What {@link LocalServer} needs to know. */
export interface LocalServerOptions {
  host: string;
  port: number;
  token?: string | undefined;
  /** For a request, from its first byte to the answer; then 504. */
  timeoutMs: number;
  /** How long closing waits for the requests at work. */
  graceMs: number;
  /** A client that takes nothing of an answer for so long is hung up on. Default 30,000. */
  stallMs?: number;
  /** Requests admitted at the same time, at work or waiting. Default: as many as come. */
  maxAdmitted?: number;
  /** Sent with every answer. */
  headers?: Readonly<Record<string, string>>;
  /** Gets what went wrong inside. */
  onError?: ((error: unknown) => void) | undefined;
  signal?: AbortSignal | undefined;
}

const STALL_MS = 30_000;

/** Longer than the keep-alive of the usual HTTP clients, so that none sends into a connection that is being closed. */
const KEEP_ALIVE_MS = 75_000;

/**
 * A small HTTP server: who may use it, how many requests it takes in, how long one may last, how it closes. Plain
 * `node:http`: a handful of routes does not pay for a framework that every user would install.
 */
export abstract class LocalServer implements AsyncDisposable {
  /** What is asked of clients, if anything is. @internal */
  protected readonly token: string | undefined;
  /** Who may use it. @internal */
  protected readonly access: Access;
  /** Fires when the grace of closing is over. @internal */
  protected readonly stop = new AbortController();
  readonly #options: LocalServerOptions;
  readonly #server: Server;
  #url = "";
  #admitted = 0;
  /** Requests whose answer has not been read yet. */
  #open = 0;
  #closing: Promise<void> | undefined;
  #drained = () => {};

  /** @internal */
  protected constructor(options: LocalServerOptions) {
    this.#options = options;
    this.token = options.token ?? (process.env.HINDSEARCH_SERVER_TOKEN || undefined);
    this.access = new Access(options.host, this.token);
    this.#server = createServer(
      { requestTimeout: options.timeoutMs, keepAliveTimeout: KEEP_ALIVE_MS },
      (request, response) => {
        this.#open++;
        response.once("close", () => {
          if (--this.#open === 0) this.#drained();
        });
        this.handle(request, response).catch((error) => this.refuse(response, error));
      },
    );
  }

  /** Answers a request, or throws why not. @internal */
  protected abstract handle(request: IncomingMessage, response: ServerResponse): Promise<void>;

  /** Tells the client why its request was not answered. @internal */
  protected abstract refuse(response: ServerResponse, error: unknown): void;

  /** Tells whoever runs the server what went wrong. One that throws over it must not take the answer along. @internal */
  protected tell(error: unknown): void {
    try {
      this.#options.onError?.(error);
    } catch (thrown) {
      emitWarning(`The server's onError threw: ${foreignReason(thrown)}.`);
    }
  }

  /** @internal */
  async listen(): Promise<void> {
    const { host, port, signal } = this.#options;
    await new Promise<void>((ready, failed) => {
      this.#server.once("error", (cause) => {
        failed(new HindsearchError("IO", `Cannot serve on ${host}:${port}: ${cause.message}.`, { cause }));
      });
      this.#server.listen(port, host, ready);
    });
    const { address, family, port: taken } = this.#server.address() as AddressInfo;
    this.#url = `http://${family === "IPv6" ? `[${address}]` : address}:${taken}`;
    const off = onAbort(signal, () => void this.close());
    this.#server.once("close", off);
  }

  /** Where it listens, e.g. `http://127.0.0.1:8000`; known once it does, also after it was closed. */
  get url(): string {
    return this.#url;
  }

  /** Takes no more requests, waits for those at work up to `graceMs`, then ends them. May be called again. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  /** The same as `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Whether no more requests are taken. @internal */
  protected get closing(): boolean {
    return this.#closing !== undefined;
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    const drained = new Promise<void>((done) => {
      this.#drained = done;
      if (this.#open === 0) done();
    });
    const { graceMs } = this.#options;
    const timers = [
      setTimeout(() => this.stop.abort(), graceMs),
      // Those that are told so read it within a second, or do not read at all.
      setTimeout(() => this.#server.closeAllConnections(), graceMs + 1000),
    ];
    await drained;
    // Also those that nobody has sent a request over, which Node does not count as idle.
    this.#server.closeAllConnections();
    await closed;
    for (const timer of timers) clearTimeout(timer);
  }

  /**
   * Runs the work of a request that is let in.
   *
   * @throws {@link RefusedRequest} 503 if there is no room, before anything of its body is read: what waits must not
   * fill the memory.
   * @internal
   */
  protected async admit(body: () => Promise<void>): Promise<void> {
    if (this.closing) throw new RefusedRequest(503, "the server is closing", { "retry-after": "5" });
    const { maxAdmitted = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#admitted >= maxAdmitted) {
      throw new RefusedRequest(503, "too many requests are waiting", { "retry-after": "1" });
    }
    this.#admitted++;
    try {
      await body();
    } finally {
      this.#admitted--;
    }
  }

  /** Runs `body` under a signal that fires when the client hangs up, time is over, or the server ends. @internal */
  protected async whileWanted<T>(
    response: ServerResponse,
    body: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { timeoutMs } = this.#options;
    const gone = new AbortController();
    const hangUp = () => gone.abort();
    response.once("close", hangUp);
    const off = onAbort(this.stop.signal, hangUp);
    try {
      return await withDeadline(timeoutMs, gone.signal, async (signal, timedOut) => {
        try {
          return await body(signal);
        } catch (error) {
          if (!timedOut()) throw error;
          throw new RefusedRequest(504, `no answer within ${timeoutMs} ms`);
        }
      });
    } finally {
      response.off("close", hangUp);
      off();
    }
  }

  /** Answers with a JSON value. @internal */
  protected send(
    response: ServerResponse,
    status: number,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    this.sendBytes(response, status, "application/json", Buffer.from(JSON.stringify(body)), headers);
  }

  /** Answers with bytes of a type. @internal */
  protected sendBytes(
    response: ServerResponse,
    status: number,
    type: string,
    body: Buffer,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    response.writeHead(status, {
      "content-type": type,
      "content-length": body.length,
      "cache-control": "no-store",
      ...this.#options.headers,
      ...headers,
      ...(this.closing && { connection: "close" }),
    });
    this.end(response, response.req.method === "HEAD" ? undefined : body);
  }

  /** Sends the end of an answer. @internal */
  protected end(response: ServerResponse, body?: string | Buffer): void {
    // What nobody reads would be kept for ever. When it has been read, Node sets the time-out of idle connections.
    response.socket?.setTimeout(this.stallMs);
    response.end(body);
  }

  /** How long a client may take nothing of an answer. @internal */
  protected get stallMs(): number {
    return this.#options.stallMs ?? STALL_MS;
  }
}

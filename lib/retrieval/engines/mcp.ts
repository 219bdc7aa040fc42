import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { Dispatcher } from "undici";
import { z } from "zod";
import { connectionFailure } from "../../network/connection-failure.js";
import { limitedAgent } from "../../network/limited-agent.js";
import { count, endpoint, headers, parseOptions } from "../../network/options.js";
import { AttemptError, isRetryableStatus } from "../../network/retry.js";
import { foreignReason, requestSecrets, Scrubber } from "../../network/secrets.js";
import { loadOptional } from "../../optional-package.js";
import type { Passage } from "../passage.js";
import { type QueryOutcome, type RemoteOptions, RemoteRetriever, remoteShape } from "../remote.js";
import { type McpToolResult, mcpPassages } from "./mcp-passages.js";

/** Settings of {@link McpRetriever}. `batchSize` is 1 by default: a tool takes one query. */
export interface McpRetrieverOptions extends RemoteOptions {
  /** A program that is started and speaks MCP on its standard input and output; or the address of a server (Streamable HTTP). */
  server: McpProgram | McpServer;
  /** The tool that searches. */
  tool: string;
  /** The tool's arguments. Default: `{ query }`. */
  arguments?: ((query: string, topK: number) => Record<string, unknown>) | undefined;
  /** The passages in the tool's answer, best first. Default {@link mcpPassages}; a tool that answers in prose needs its own. */
  passages?: ((result: McpToolResult) => readonly Passage[]) | undefined;
  /** Most bytes of a message. Default 8 MiB. */
  maxResponseBytes?: number | undefined;
}

/** An MCP server as a program. */
export interface McpProgram {
  /** What to run; searched for in the path. */
  command: string;
  /** Its arguments. */
  args?: readonly string[] | undefined;
  /** Added to the few harmless variables that it gets of the environment; the values are secrets. */
  env?: Record<string, string> | undefined;
  /** Its folder. Default: the current one. */
  cwd?: string | undefined;
}

/** An MCP server behind an address. */
export interface McpServer {
  /** http or https, without user and password. */
  url: string;
  /** Sent as `Authorization: Bearer`. Default: the environment variable `HINDSEARCH_MCP_TOKEN`, else nothing. */
  token?: string | undefined;
  /** Further request headers; the values are secrets. */
  headers?: Record<string, string> | undefined;
}

/** Schema of {@link McpRetrieverOptions}. @internal */
export const mcpShape = {
  server: z.union([
    z.strictObject({
      command: z.string().min(1),
      args: z.array(z.string()).default([]),
      env: z.record(z.string(), z.string()).default({}),
      cwd: z.string().min(1).optional(),
    }),
    z.strictObject({ url: endpoint, token: z.string().min(1).optional(), headers }),
  ]),
  tool: z.string().min(1),
  arguments: z
    .custom<(query: string, topK: number) => Record<string, unknown>>((value) => typeof value === "function")
    .default(() => (query: string) => ({ query })),
  passages: z
    .custom<(result: McpToolResult) => readonly Passage[]>((value) => typeof value === "function")
    .default(() => mcpPassages),
  maxResponseBytes: count.default(8 * 2 ** 20),
  ...remoteShape,
  batchSize: count.default(1),
};
const Options = z.strictObject(mcpShape);

const Passages = z.array(
  z.object({ id: z.string(), title: z.string(), text: z.string(), score: z.number().optional() }),
);

/** JSON-RPC's codes for what no repetition changes: invalid request, unknown method, invalid parameters. */
const FINAL_CODES: readonly unknown[] = [-32600, -32601, -32602];
/** A server has a few dozen tools; one that lists for ever does not hold us up. */
const MOST_PAGES = 50;

/**
 * Searches with a tool of an MCP server. Needs the optional package `@modelcontextprotocol/sdk`, loaded on first use.
 *
 * The connection is made at the first search, which checks that the server has the tool, and again when it was lost. A
 * tool that says that it failed is asked again; one that reports an outage as an ordinary text cannot be told from a
 * result, except by `passages`, which may throw.
 */
export class McpRetriever extends RemoteRetriever {
  readonly #options: z.output<typeof Options>;
  readonly #scrubber: Scrubber;
  readonly #token: string | undefined;
  /** Of a server behind an address. */
  readonly #agent: Dispatcher | undefined;
  #client: Promise<Client> | undefined;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: McpRetrieverOptions) {
    const checked = parseOptions(Options, options, "McpRetriever");
    const { server, tool, concurrency, maxResponseBytes } = checked;
    const token =
      "url" in server ? (server.token ?? (process.env.HINDSEARCH_MCP_TOKEN || undefined)) : undefined;
    const secrets =
      "url" in server
        ? requestSecrets({ apiKey: token, headers: server.headers, url: server.url })
        : Object.values(server.env);
    const where = "url" in server ? new URL(server.url).origin : server.command;
    super(`MCP tool ${tool} of ${where}`, checked, secrets);
    this.#options = checked;
    this.#token = token;
    // One connection more: for what the server sends unasked.
    this.#agent =
      "url" in server ? limitedAgent({ connections: concurrency + 1, maxResponseBytes }) : undefined;
    this.#scrubber = new Scrubber(secrets);
  }

  /** @internal */
  protected override ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<QueryOutcome[]> {
    return Promise.all(queries.map((query) => this.#call(query, topK, signal)));
  }

  /** @internal */
  protected override async disconnect(): Promise<void> {
    await (await this.#client?.catch(() => undefined))?.close();
    await this.#agent?.close();
  }

  async #call(query: string, topK: number, signal: AbortSignal): Promise<QueryOutcome> {
    const { tool, timeoutMs, arguments: argumentsOf } = this.#options;
    this.#client ??= this.#connect();
    const connection = this.#client;
    let result: McpToolResult & { isError?: boolean | undefined };
    try {
      const client = await connection;
      const call = { name: tool, arguments: argumentsOf(query, topK) };
      result = (await client.callTool(call, undefined, { signal, timeout: timeoutMs })) as typeof result;
    } catch (error) {
      if (error instanceof AttemptError || (error as { code?: unknown }).code === "DEPENDENCY_MISSING")
        throw error;
      const failure = this.#failed(error);
      // Sessions end and programs die: the next attempt connects anew.
      if (failure.retryable && !signal.aborted) await this.#drop(connection);
      return failure;
    }
    return this.#read(result);
  }

  #read(result: McpToolResult & { isError?: boolean | undefined }): QueryOutcome {
    if (result.isError) {
      const said = (result.content ?? []).map(({ text }) => text ?? "").join(" ");
      return new AttemptError(`the tool failed: ${this.#scrubber.excerpt(said)}`, { retryable: true });
    }
    try {
      const passages = this.#options.passages(result);
      Passages.parse(passages);
      return [...passages];
    } catch (error) {
      const problem =
        error instanceof z.ZodError ? "the option passages gave something else" : (error as Error).message;
      const reason = foreignReason(this.#scrubber.scrub(problem));
      const message = `the tool's answer cannot be read as passages: ${reason}; see the option passages`;
      return new AttemptError(message, { retryable: false });
    }
  }

  async #drop(connection: Promise<Client>): Promise<void> {
    if (this.#client !== connection) return;
    this.#client = undefined;
    const client = await connection.catch(() => undefined);
    await client?.close().catch(() => {});
  }

  async #connect(): Promise<Client> {
    const { Client } = await loadSdk(() => import("@modelcontextprotocol/sdk/client/index.js"));
    const client = new Client({ name: "hindsearch", version: "1" });
    const { timeoutMs: timeout, tool } = this.#options;
    const connection = this.#client;
    try {
      await client.connect(await this.#transport(), { timeout });
      const names: string[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MOST_PAGES; page++) {
        const { tools, nextCursor } = await client.listTools(cursor === undefined ? {} : { cursor }, {
          timeout,
        });
        names.push(...tools.map(({ name }) => name));
        cursor = nextCursor;
        if (names.includes(tool)) return client;
        if (cursor === undefined) break;
      }
      throw new AttemptError(
        `the server has no such tool; it has: ${this.#scrubber.excerpt(names.join(", "))}`,
        {
          retryable: false,
        },
      );
    } catch (error) {
      if (this.#client === connection) this.#client = undefined;
      await client.close().catch(() => {});
      throw error instanceof AttemptError ? error : this.#failed(error);
    }
  }

  async #transport(): Promise<Transport> {
    const { server, maxResponseBytes } = this.#options;
    if ("command" in server) {
      const { StdioClientTransport } = await loadSdk(
        () => import("@modelcontextprotocol/sdk/client/stdio.js"),
      );
      const { cwd, ...program } = server;
      return new StdioClientTransport({
        ...program,
        ...(cwd !== undefined && { cwd }),
        // What it writes may hold its keys.
        stderr: "ignore",
        maxBufferSize: maxResponseBytes,
      });
    }
    const { StreamableHTTPClientTransport } = await loadSdk(
      () => import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    );
    const { url, headers } = server;
    const dispatcher = this.#agent;
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    return new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { ...headers, ...authorization, "accept-encoding": "identity" } },
      fetch: (address, init) =>
        fetch(address, { ...init, redirect: "manual", dispatcher } as unknown as RequestInit),
    }) as Transport;
  }

  /** Without a cause: the SDK's errors may hold the request. */
  #failed(error: unknown): AttemptError {
    const { code } = error as { code?: unknown };
    const { reason, retryable } = connectionFailure(error);
    const status = typeof code === "number" && code >= 100 && code <= 599 ? code : undefined;
    if (status !== undefined && status >= 300 && status <= 399) {
      const message = `status ${status}: the server redirects to another host, and that is not followed; use the final address`;
      return new AttemptError(message, { retryable: false, status });
    }
    const where = status === undefined ? "" : `status ${status}: `;
    return new AttemptError(`${where}${foreignReason(this.#scrubber.scrub(reason))}`, {
      // 404 is how a server says that it has forgotten the session.
      retryable:
        status === undefined
          ? retryable && !FINAL_CODES.includes(code)
          : status === 404 || isRetryableStatus(status),
      status,
    });
  }
}

function loadSdk<T>(load: () => Promise<T>): Promise<T> {
  return loadOptional("McpRetriever", ["@modelcontextprotocol/sdk@^1.32.0"], load);
}

import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { count, milliseconds, parseOptions } from "../network/options.js";
import { LocalServer, serverShape } from "../network/server/local-server.js";
import { RefusedRequest } from "../network/server/refused-request.js";
import { readJsonBody } from "../network/server/request-body.js";
import type { Decoder } from "../policy/decoder.js";
import type { Policy } from "../policy/policy.js";
import type { DecoderOptions } from "../policy/policy-options.js";
import { type AgentReply, streamedAgentReply, wholeAgentReply } from "./agent-reply.js";
import type { CompletionTask } from "./completion.js";
import { complete } from "./completion.js";
import { DecoderHub } from "./decoder-hub.js";
import { EventStream } from "./event-stream.js";
import { chatForm, completionForm, type ReplyForm, type ReplyHead } from "./replies.js";
import { type Reply, streamedReply, wholeReply } from "./reply.js";
import { type ChatRequest, readChat, readCompletion } from "./requests.js";
import { ServedAgent, type ServedAgentOptions } from "./served-agent.js";
import { ServedPolicy, samplingOf, seedOf } from "./served-policy.js";

/** Settings of {@link servePolicy}. Times are in milliseconds. */
export interface ServePolicyOptions extends AbortOptions {
  /** What clients call the model. Default `"policy"`. */
  name?: string | undefined;
  /** Served as a second model, the name with `-search` behind it, which searches before it answers. */
  agent?: ServedAgentOptions | undefined;
  /** Address to listen on. Default `127.0.0.1`; others need a token. */
  host?: string | undefined;
  /** Default 8080; 0 takes a free one. */
  port?: number | undefined;
  /**
   * Asked of every request but `GET /health`, as `Authorization: Bearer`, which clients call the API key. Default: the
   * environment variable `HINDSEARCH_SERVER_TOKEN`, else none.
   */
  token?: string | undefined;
  /** Sizes of the decoder that all requests share. */
  decoder?: DecoderOptions | undefined;
  /** Requests at work or waiting; further ones are answered 503 with Retry-After. Default 256. */
  maxRequests?: number | undefined;
  /** Tokens of an answer whose request does not say. Default 512. */
  defaultMaxTokens?: number | undefined;
  /** Choices that one request may ask for. Default 16. */
  maxChoices?: number | undefined;
  /** Most bytes of a request. Default 4 MiB. */
  maxBodyBytes?: number | undefined;
  /** For a request, from its first byte to the end of the answer; then 504, or an error event in a stream. Default 600,000. */
  timeoutMs?: number | undefined;
  /**
   * A client that takes nothing of its answer for so long is hung up on. While it takes nothing, what it asked for is not
   * written on. Default 30,000.
   */
  stallMs?: number | undefined;
  /** How long closing waits for the requests at work before it ends them. Default 10,000. */
  graceMs?: number | undefined;
  /** Gets what went wrong inside; clients are told only that it did. */
  onError?: ((error: unknown) => void) | undefined;
}

const Options = z.strictObject({
  ...serverShape,
  name: z.string().min(1).default("policy"),
  agent: z.custom<ServedAgentOptions>((value) => typeof value === "object" && value !== null).optional(),
  port: z.int().min(0).max(65_535).default(8080),
  decoder: z.custom<DecoderOptions>((value) => typeof value === "object" && value !== null).default({}),
  maxRequests: count.default(256),
  defaultMaxTokens: count.default(512),
  maxChoices: count.default(16),
  maxBodyBytes: count.default(4 * 2 ** 20),
  timeoutMs: milliseconds.min(1).default(600_000),
  stallMs: milliseconds.min(1).default(30_000),
  graceMs: milliseconds.default(10_000),
});

/** Behind the model's name, what its agent is called. */
const AGENT = "-search";

/** Errors that what the client asked for is the reason of. */
const CLIENT_ERRORS: readonly string[] = ["CONTEXT_FULL", "INVALID_ARGUMENT", "CHAT_TEMPLATE"];

/**
 * Serves a policy over the HTTP interface that OpenAI's clients speak: `POST /v1/chat/completions` and
 * `POST /v1/completions`, whole or streamed, `GET /v1/models`, and `GET /health`.
 *
 * With `agent` there is a second model, a search agent: the last user message of a conversation is its question, and what
 * stands before it is not looked at. Its turns are streamed as `reasoning_content`, its answer is the content, and
 * `search` in the message has the status of its trajectory and what it looked up.
 *
 * All requests decode in one batch (continuous batching, one paged cache). With a `seed` the answer to a request is the
 * same whatever else is asked at the time. What clients send is foreign text: it cannot become a control token. What is
 * not supported (tools, penalties, response formats) is refused and not ignored.
 *
 * @param policy - Not disposed of with the server. Steps of an optimizer change what is served from the next token on.
 * @param options - Address and limits; `signal` closes the server.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong options or an open address without token, `IO` if the port
 * cannot be had, `OUT_OF_MEMORY` for the decoder, `ABORTED`.
 */
export async function servePolicy(policy: Policy, options: ServePolicyOptions = {}): Promise<PolicyServer> {
  const checked = parseOptions(Options, options, "servePolicy");
  throwIfAborted(checked.signal);
  const decoder = await policy.createDecoder(checked.decoder);
  const server = new PolicyServer(policy, decoder, checked);
  try {
    await server.listen();
  } catch (error) {
    decoder.dispose();
    throw error;
  }
  return server;
}

/** See {@link servePolicy}. */
export class PolicyServer extends LocalServer {
  readonly #policy: ServedPolicy;
  readonly #decoder: Decoder;
  readonly #hub: DecoderHub;
  readonly #agent: ServedAgent | undefined;
  readonly #options: z.output<typeof Options>;
  readonly #created = Math.floor(Date.now() / 1000);

  /** @internal */
  constructor(policy: Policy, decoder: Decoder, options: z.output<typeof Options>) {
    super({ ...options, maxAdmitted: options.maxRequests });
    this.#policy = new ServedPolicy(policy, options);
    this.#decoder = decoder;
    this.#hub = new DecoderHub(decoder);
    this.#agent = options.agent && new ServedAgent(policy, options.agent);
    this.#options = options;
  }

  /** Takes no more requests, waits for those at work up to `graceMs`, ends them, and frees the decoder. */
  override async close(): Promise<void> {
    await super.close();
    this.#decoder.dispose();
  }

  /** @internal */
  protected override async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?", 1)[0] as string;
    if (path === "/health") {
      this.access.checkHost(request);
      return this.send(response, 200, { status: this.closing ? "closing" : "healthy" });
    }
    this.access.check(request);
    if (path === "/v1/models") return this.#models(request, response);
    const route =
      path === "/v1/chat/completions" ? this.#chat : path === "/v1/completions" ? this.#text : null;
    if (route === null) throw new RefusedRequest(404, `there is no ${path}`);
    if (request.method !== "POST") throw new RefusedRequest(405, "use POST", { allow: "POST" });
    await this.admit(async () => {
      const body = await readJsonBody(request, this.#options.maxBodyBytes);
      await route.call(this, body, response);
    });
  }

  #models(request: IncomingMessage, response: ServerResponse): void {
    if (request.method !== "GET") throw new RefusedRequest(405, "use GET", { allow: "GET" });
    const more = { object: "model", created: this.#created, owned_by: "hindsearch" };
    this.send(response, 200, { object: "list", data: this.#names.map((id) => ({ id, ...more })) });
  }

  async #chat(body: unknown, response: ServerResponse): Promise<void> {
    const request = readChat(body);
    this.#checkModel(request.model);
    if (request.model !== this.#options.name) return this.#search(request, response);
    const task = this.#policy.chatTask(request);
    const form = chatForm(this.#head("chatcmpl"), this.#policy.tokenizer, request.logprobs ?? false);
    await this.#answer(response, [task], form, request.stream_options?.include_usage ?? false);
  }

  async #text(body: unknown, response: ServerResponse): Promise<void> {
    const request = readCompletion(body);
    this.#checkModel(request.model);
    if (request.model !== this.#options.name)
      throw new RefusedRequest(400, `${request.model} answers at /v1/chat/completions`);
    const tasks = this.#policy.completionTasks(request);
    const { logprobs = null } = request;
    const form = completionForm(this.#head("cmpl"), this.#policy.tokenizer, logprobs !== null);
    await this.#answer(response, tasks, form, request.stream_options?.include_usage ?? false);
  }

  async #answer(
    response: ServerResponse,
    tasks: readonly CompletionTask[],
    form: ReplyForm,
    withUsage: boolean,
  ): Promise<void> {
    const table = this.#policy.tokenizer.tokenBytes();
    const total = tasks.reduce((sum, { choices }) => sum + choices, 0);
    await this.whileWanted(response, async (signal) => {
      const reply: Reply = tasks[0]?.stream
        ? streamedReply(form, new EventStream(response, this.stallMs), withUsage)
        : wholeReply(form, total, (whole) => this.send(response, 200, whole));
      const onPiece = reply.piece.bind(reply);
      await complete(this.#hub.user(), table, tasks, { signal, onPiece });
      await reply.end(tasks.reduce((sum, { prompt }) => sum + prompt.length, 0));
    });
  }

  async #search(request: ChatRequest, response: ServerResponse): Promise<void> {
    const agent = this.#agent as ServedAgent;
    const question = agent.question(request);
    this.#policy.refuseLong(question);
    const head = this.#head("chatcmpl", request.model);
    await this.whileWanted(response, async (signal) => {
      const reply: AgentReply = request.stream
        ? streamedAgentReply(
            head,
            new EventStream(response, this.stallMs),
            request.stream_options?.include_usage ?? false,
          )
        : wholeAgentReply(head, (whole) => this.send(response, 200, whole));
      const options = { sampling: samplingOf(request), seed: seedOf(request.seed), signal };
      await agent.answer(question, this.#hub.user(), { ...options, onWarning: this.#warn }, reply);
    });
  }

  get #names(): string[] {
    const { name } = this.#options;
    return this.#agent === undefined ? [name] : [name, `${name}${AGENT}`];
  }

  /** An outage is for whoever runs the server. */
  readonly #warn = (warning: string) => this.tell(new Error(warning));

  #checkModel(model: string): void {
    if (this.#names.includes(model)) return;
    const names = this.#names.map((name) => `"${name}"`).join(" and ");
    throw new RefusedRequest(404, `there is no model ${JSON.stringify(model)}; there is ${names}`);
  }

  #head(kind: string, model = this.#options.name): ReplyHead {
    return { id: `${kind}-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  }

  /** @internal */
  protected override refuse(response: ServerResponse, error: unknown): void {
    // Nobody is there to be told.
    if (response.destroyed) return;
    const { status, message, headers } = this.#refusal(error);
    const type = status < 500 ? "invalid_request_error" : "server_error";
    const body = { error: { message, type, param: null, code: null } };
    if (response.headersSent) this.end(response, `data: ${JSON.stringify(body)}\n\n`);
    else this.send(response, status, body, headers);
  }

  #refusal(error: unknown): RefusedRequest {
    if (error instanceof RefusedRequest) return error;
    if (this.stop.signal.aborted) {
      return new RefusedRequest(503, "the server is closing", { "retry-after": "5" });
    }
    if (error instanceof HindsearchError && CLIENT_ERRORS.includes(error.code)) {
      return new RefusedRequest(400, error.message);
    }
    this.tell(error);
    const failed = error instanceof HindsearchError && error.code === "RETRIEVAL_FAILED";
    if (failed) return new RefusedRequest(502, "the search failed", { "retry-after": "5" });
    return new RefusedRequest(500, "the model failed to answer");
  }
}

import type { AbortOptions } from "../abort.js";
import { BoundProtocol } from "../agent/bound-protocol.js";
import { type SearchProtocol, searchR1 } from "../agent/protocol.js";
import type { SearchFailureOptions } from "../agent/search-options.js";
import type { SequenceDecoder } from "../agent/segments.js";
import type { Sampling } from "../agent/trajectory.js";
import { watchAgent } from "../agent/watched-agent.js";
import { RefusedRequest } from "../network/server/refused-request.js";
import type { Policy } from "../policy/policy.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import type { Retriever } from "../retrieval/retriever.js";
import type { AgentReply } from "./agent-reply.js";
import type { ChatRequest } from "./requests.js";
import { textOf } from "./served-policy.js";

/** The search agent that is served beside a policy. */
export interface ServedAgentOptions {
  /** What it searches. Not closed with the server. */
  retriever: Retriever;
  /** How it searches: that of its training. Default `searchR1()`. */
  protocol?: SearchProtocol | undefined;
  /** How searches that fail are treated. Default: one that fails is tried once more, and an outage ends the request. */
  search?: SearchFailureOptions | undefined;
}

/** How one question is answered. */
interface AnswerOptions extends AbortOptions {
  sampling: Readonly<Sampling>;
  seed: bigint;
  onWarning: (warning: string) => void;
}

/** A policy that searches before it answers. */
export class ServedAgent {
  readonly #tokenizer: Tokenizer;
  readonly #protocol: BoundProtocol;
  readonly #retriever: Retriever;
  readonly #search: SearchFailureOptions;

  constructor(policy: Policy, { retriever, protocol = searchR1(), search = {} }: ServedAgentOptions) {
    this.#tokenizer = policy.tokenizer;
    this.#protocol = new BoundProtocol(protocol, policy);
    this.#retriever = retriever;
    // Somebody waits for the answer: he is told of an outage and not made to sit through it.
    this.#search = { outage: "fail", ...search };
  }

  /** The question of a conversation. @throws {@link RefusedRequest} 400 for what an agent cannot do. */
  question(request: ChatRequest): string {
    const last = request.messages.at(-1);
    if (last?.role !== "user")
      throw new RefusedRequest(400, "messages: the last one must be the user's question");
    const { n, logprobs, stop, max_tokens, max_completion_tokens } = request;
    const refused = Object.entries({ logprobs, stop, max_tokens, max_completion_tokens }).find(([, value]) =>
      Array.isArray(value) ? value.length > 0 : value,
    );
    if (refused !== undefined)
      throw new RefusedRequest(400, `${refused[0]}: not for an agent, whose protocol says when it ends`);
    if ((n ?? 1) !== 1) throw new RefusedRequest(400, "n: an agent gives one answer");
    return textOf(last.content);
  }

  /** Searches and answers. @throws {@link HindsearchError} `RETRIEVAL_FAILED`, `ABORTED`, and what makes the engine fail. */
  async answer(
    question: string,
    decoder: SequenceDecoder,
    options: AnswerOptions,
    reply: AgentReply,
  ): Promise<void> {
    const trajectory = await watchAgent(question, {
      ...this.#search,
      ...options,
      decoder,
      retriever: this.#retriever,
      protocol: this.#protocol,
      tokenizer: this.#tokenizer,
      onEvent: (event) => reply.event(event),
    });
    await reply.end(trajectory);
  }
}

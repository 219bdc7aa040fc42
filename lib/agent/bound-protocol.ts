import { ChatTemplate } from "../policy/chat-template.js";
import type { Segment } from "../policy/decoder.js";
import type { Policy } from "../policy/policy.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import type { Passage } from "../retrieval/passage.js";
import { type ActionTags, type ParsedTurn, parseTurn, type Tag } from "./action.js";
import { type Observation, ObservationEncoder } from "./observation.js";
import { checkProtocol, type SearchProtocol, type TagPair } from "./protocol.js";

/** A protocol in the tokens of one policy. */
export class BoundProtocol {
  /** The protocol itself. */
  readonly protocol: SearchProtocol;
  /** Texts that end a turn: the closing tags, where they are text. */
  readonly stops: readonly string[];
  /** Ids that end a turn: the policy's end tokens, and the closing tags where they are control tokens. */
  readonly endTokens: readonly number[];
  /** The notice after an invalid action; may be empty. */
  readonly noticeTokens: Int32Array;
  readonly #tokenizer: Tokenizer;
  readonly #template: ChatTemplate | undefined;
  readonly #tags: ActionTags;
  readonly #observations: ObservationEncoder;

  /**
   * @param protocol - The protocol.
   * @param policy - Whose tokens.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the protocol contradicts itself or leaves no room for an
   * observation, `CHAT_TEMPLATE` if it wants a chat template and the policy has none that can be used.
   */
  constructor(protocol: SearchProtocol, policy: Pick<Policy, "tokenizer" | "eosTokenIds">) {
    checkProtocol(protocol);
    this.protocol = protocol;
    this.#tokenizer = policy.tokenizer;
    this.#template = protocol.chat ? new ChatTemplate(policy.tokenizer) : undefined;
    const pair = ({ open, close }: TagPair) => ({ open: this.#tag(open), close: this.#tag(close) });
    this.#tags = { search: pair(protocol.tags.search), answer: pair(protocol.tags.answer) };
    const closing = [this.#tags.search.close, this.#tags.answer.close];
    this.stops = closing.flatMap(({ text, id }) => (id === undefined ? [text] : []));
    this.endTokens = [...policy.eosTokenIds, ...closing.flatMap(({ id }) => id ?? [])];
    this.noticeTokens = Int32Array.from(this.#encode(protocol.notice));
    this.#observations = new ObservationEncoder(protocol, policy.tokenizer);
  }

  /**
   * The prompt of a question.
   *
   * @param question - Foreign text.
   * @param hint - For the teacher; foreign text too.
   */
  promptTokens(question: string, hint?: string): Int32Array {
    const content = this.protocol.prompt(question, hint);
    const bos = this.#template === undefined && this.#tokenizer.addsBos;
    const segments = this.#template?.render([{ role: "user", content }]) ?? content;
    return Int32Array.from(this.#tokenizer.encodePrompt(segments, { bos }));
  }

  /** Passages that a retriever is asked for: enough for {@link newPassages} to choose from. */
  get searchDepth(): number {
    const { passagesPerSearch, maxSearches, repeatedPassages } = this.protocol;
    return repeatedPassages === "skip" ? passagesPerSearch * Math.max(1, maxSearches) : passagesPerSearch;
  }

  /**
   * The passages of a search to show.
   *
   * @param found - What the retriever returned, best first.
   * @param shown - Ids of those that earlier searches of the trajectory showed.
   */
  newPassages(found: readonly Passage[], shown: ReadonlySet<string>): Passage[] {
    const { passagesPerSearch, repeatedPassages } = this.protocol;
    const seen = new Set(shown);
    const chosen: Passage[] = [];
    for (const passage of found) {
      if (chosen.length === passagesPerSearch) break;
      if (repeatedPassages === "skip" && seen.has(passage.id)) continue;
      seen.add(passage.id);
      chosen.push(passage);
    }
    return chosen;
  }

  /** What is inserted after a search, cut to the limit. */
  observation(passages: readonly Passage[]): Observation {
    return this.#observations.encode(passages);
  }

  /** Its tokens alone, tags included. */
  observationTokens(passages: readonly Passage[]): Int32Array {
    return this.observation(passages).tokens;
  }

  /** Tokens that a trajectory can have at most, its prompt included. */
  reserve(promptTokens: number): number {
    const { maxSearches, maxTurnTokens, maxObservationTokens, maxTokens } = this.protocol;
    const inserted = Math.max(maxObservationTokens, this.noticeTokens.length);
    return Math.min(maxTokens, promptTokens + (maxSearches + 1) * maxTurnTokens + maxSearches * inserted);
  }

  /** Finds the action in what the policy wrote in one turn. */
  parse(tokens: Int32Array): ParsedTurn {
    const { bytes, offsets } = this.#tokenizer.tokenBytes();
    return parseTurn(tokens, (token) => bytes.subarray(offsets[token], offsets[token + 1]), this.#tags);
  }

  /** Whether a turn ended with a closing tag, and not with one of the policy's end tokens or at a limit. */
  closedTag({ reason, tokens }: Segment): boolean {
    if (reason === "stop") return true;
    if (reason !== "endToken") return false;
    const last = tokens.at(-1);
    return [this.#tags.search.close, this.#tags.answer.close].some(({ id }) => id === last);
  }

  /** The text of tokens, as a person reads it. */
  decode(tokens: Int32Array): string {
    return this.#tokenizer.decode(tokens);
  }

  #tag(text: string): Tag {
    const [id, ...others] = this.#encode(text);
    const isControl = id !== undefined && others.length === 0 && this.#tokenizer.isControl(id);
    return isControl ? { text, id } : { text };
  }

  #encode(text: string): number[] {
    return this.#tokenizer.encodePrompt([{ text, trusted: true }], { atStart: false });
  }
}

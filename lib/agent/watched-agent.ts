import type { AbortOptions } from "../abort.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import type { Passage } from "../retrieval/passage.js";
import type { Retriever } from "../retrieval/retriever.js";
import type { BoundProtocol } from "./bound-protocol.js";
import { rollout } from "./rollout.js";
import type { SearchFailureOptions } from "./search-options.js";
import type { SequenceDecoder } from "./segments.js";
import type { Sampling, Trajectory } from "./trajectory.js";

/** What an agent does, as it does it. */
export type AgentEvent =
  /** It wrote a turn. */
  | { kind: "turn"; text: string }
  /** A search found passages. */
  | { kind: "passages"; query: string; passages: readonly Passage[] };

/** Options of {@link watchAgent}. */
export interface WatchOptions extends AbortOptions, SearchFailureOptions {
  decoder: SequenceDecoder;
  retriever: Retriever;
  protocol: BoundProtocol;
  /** Whose control tokens are shown by their names: tags may be such tokens. */
  tokenizer: Tokenizer;
  sampling: Readonly<Sampling>;
  seed: number | bigint;
  /** Hears of every turn and search, in order. */
  onEvent: (event: AgentEvent) => void;
  onWarning?: (warning: string) => void;
}

/**
 * Answers one question, and tells of every turn when it is written and of every search when it is answered.
 *
 * @throws {@link HindsearchError} What `rollout` throws; a search that fails is an error here.
 */
export async function watchAgent(question: string, options: WatchOptions): Promise<Trajectory> {
  const { decoder, retriever, tokenizer, onEvent } = options;
  const read = textWithControlTokens(tokenizer);
  const { groups } = await rollout({
    ...options,
    maxFailedShare: 0,
    decoder: watchedDecoder(decoder, (tokens) => onEvent({ kind: "turn", text: read(tokens) })),
    retriever: watchedRetriever(retriever, (query, passages) =>
      onEvent({ kind: "passages", query, passages }),
    ),
    // Nobody scores the answer.
    questions: [{ id: "question", question, goldAnswers: ["unknown"] }],
    groupSize: 1,
    purpose: "chat",
  });
  return (groups as [[Trajectory]])[0][0];
}

/** Decodes, with the names of control tokens in place. */
function textWithControlTokens(tokenizer: Tokenizer): (tokens: Int32Array) => string {
  const names = new Map<number, string>();
  for (const name of tokenizer.addedTokens) {
    const [id, ...others] = tokenizer.encodePrompt([{ text: name, trusted: true }]);
    if (id !== undefined && others.length === 0 && tokenizer.isControl(id)) names.set(id, name);
  }
  return (tokens) => {
    let text = "";
    let start = 0;
    for (const [i, id] of [...tokens.entries(), [tokens.length, -1] as const]) {
      const name = names.get(id);
      if (name === undefined && id !== -1) continue;
      text += tokenizer.decode(tokens.subarray(start, i)) + (name ?? "");
      start = i + 1;
    }
    return text;
  };
}

function watchedDecoder(decoder: SequenceDecoder, onTurn: (tokens: Int32Array) => void): SequenceDecoder {
  return {
    submit: (...args) => decoder.submit(...args),
    fork: (...args) => decoder.fork(...args),
    extend: (...args) => decoder.extend(...args),
    release: (...args) => decoder.release(...args),
    async next(options) {
      const segments = await decoder.next(options);
      for (const { tokens } of segments) if (tokens.length > 0) onTurn(tokens);
      return segments;
    },
  };
}

function watchedRetriever(
  retriever: Retriever,
  onFound: (query: string, passages: readonly Passage[]) => void,
): Retriever {
  return {
    async search(queries, topK, options) {
      const lists = await retriever.search(queries, topK, options);
      for (const [i, passages] of lists.entries()) onFound(queries[i] as string, passages);
      return lists;
    },
  };
}

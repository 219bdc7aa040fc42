import type { Tokenizer } from "../policy/tokenizer.js";
import type { CompletionPiece } from "./completion.js";

/** Tokens of a request and of what was written for it. */
export interface Usage {
  prompt: number;
  completion: number;
}

/** A choice with all that was written. */
export interface WholeChoice {
  text: string;
  tokens: number[];
  logProbs: number[];
  finish: "stop" | "length";
}

/** What all objects of one reply have in common. */
export interface ReplyHead {
  id: string;
  /** Seconds since 1970. */
  created: number;
  model: string;
}

/** How a route writes what came out, in whole and in pieces. */
export interface ReplyForm {
  /** Sent once for each choice before its first piece; `undefined`: nothing. */
  opening(choice: number): object | undefined;
  piece(piece: CompletionPiece): object;
  /** Behind the last piece, for who asked for it. */
  usage(usage: Usage): object;
  whole(choices: readonly WholeChoice[], usage: Usage): object;
}

const usageOf = ({ prompt, completion }: Usage) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
});

/** The log-probs of tokens in a reply: `null` where nobody asked for them. */
function tokenLogProbs(tokenizer: Tokenizer, tokens: ArrayLike<number>, logProbs: ArrayLike<number>) {
  const { bytes, offsets } = tokenizer.tokenBytes();
  return Array.from(tokens, (id, index) => ({
    token: tokenizer.decode([id]),
    logprob: logProbs[index],
    bytes: [...bytes.subarray(offsets[id], offsets[id + 1])],
    top_logprobs: [],
  }));
}

/** Of `POST /v1/chat/completions`. */
export function chatForm(head: ReplyHead, tokenizer: Tokenizer, withLogProbs: boolean): ReplyForm {
  const chunk = (choices: object[], more: object = {}) => ({
    ...head,
    object: "chat.completion.chunk",
    choices,
    ...more,
  });
  const logprobs = (tokens: ArrayLike<number>, logProbs: ArrayLike<number>) =>
    withLogProbs ? { content: tokenLogProbs(tokenizer, tokens, logProbs), refusal: null } : null;
  return {
    opening: (index) =>
      chunk([{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }]),
    piece: ({ choice: index, text, tokens, logProbs, finish }) =>
      chunk([
        {
          index,
          delta: text === "" ? {} : { content: text },
          logprobs: logprobs(tokens, logProbs),
          finish_reason: finish,
        },
      ]),
    usage: (usage) => chunk([], { usage: usageOf(usage) }),
    whole: (choices, usage) => ({
      ...head,
      object: "chat.completion",
      choices: choices.map(({ text, tokens, logProbs, finish }, index) => ({
        index,
        message: { role: "assistant", content: text, refusal: null },
        logprobs: logprobs(tokens, logProbs),
        finish_reason: finish,
      })),
      usage: usageOf(usage),
    }),
  };
}

/** Of `POST /v1/completions`. */
export function completionForm(head: ReplyHead, tokenizer: Tokenizer, withLogProbs: boolean): ReplyForm {
  const object = (choices: object[], more: object = {}) => ({
    ...head,
    object: "text_completion",
    choices,
    ...more,
  });
  const logprobs = (tokens: ArrayLike<number>, logProbs: ArrayLike<number>) =>
    withLogProbs
      ? {
          tokens: Array.from(tokens, (id) => tokenizer.decode([id])),
          token_logprobs: Array.from(logProbs),
          top_logprobs: null,
        }
      : null;
  return {
    opening: () => undefined,
    piece: ({ choice: index, text, tokens, logProbs, finish }) =>
      object([{ index, text, logprobs: logprobs(tokens, logProbs), finish_reason: finish }]),
    usage: (usage) => object([], { usage: usageOf(usage) }),
    whole: (choices, usage) =>
      object(
        choices.map(({ text, tokens, logProbs, finish }, index) => ({
          index,
          text,
          logprobs: logprobs(tokens, logProbs),
          finish_reason: finish,
        })),
        { usage: usageOf(usage) },
      ),
  };
}

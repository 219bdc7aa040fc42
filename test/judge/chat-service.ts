import { ChatJudge, type ChatJudgeOptions } from "../../lib/judge/chat.js";
import type { JudgeInput } from "../../lib/judge/input.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Handler, loopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";

/** The key that every judge of {@link chatService} sends. */
export const KEY = "canary-key-9d41f7";
/** A failed trajectory. */
export const INPUT: JudgeInput = {
  question: "Where was the director of Jaws born?",
  goldAnswers: ["Cincinnati"],
  steps: [{ query: "Jaws", passages: [{ id: "1", title: "Jaw", text: "A bone." }] }],
  answer: "London",
};
/** What {@link correct} says about it. */
export const TEXT = "Search who directed the 1975 film Jaws, then that director's birthplace.";

/** A text between the marks that the prompt asks for. */
export function marked({ body }: ReceivedRequest, text: string): string {
  const [, nonce] = body.messages[1].content.match(/\[\[critique ([0-9a-f]{6})\]\]/);
  return `[[critique ${nonce}]]${text}[[end ${nonce}]]`;
}

/** A chat completion in OpenAI's form. */
export const completion = (content: string | null, finish = "stop", message = {}) => ({
  id: "x",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content, ...message }, finish_reason: finish }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** Serves a critique. */
export const says =
  (text: string): Handler =>
  (request, response) =>
    sendJson(response, completion(marked(request, text)));

/** Serves {@link TEXT}. */
export const correct = says(TEXT);

/** A chat endpoint for each test of the calling file, and judges that ask it and wait little. */
export function chatService() {
  const server = loopbackServer(correct);
  return {
    /** The server of the running test. */
    get server() {
      return server.current;
    },
    /** A judge whose endpoint behaves like `handler`. */
    judge(handler: Handler, options: Partial<ChatJudgeOptions> = {}): ChatJudge {
      server.current.handler = handler;
      return new ChatJudge({
        baseURL: `${server.current.origin}/v1`,
        model: "judge-model",
        tokenizer: byteTokenizer(),
        apiKey: KEY,
        baseDelayMs: 5,
        maxDelayMs: 20,
        breakerFailures: 1000,
        structured: "never",
        ...options,
      });
    },
  };
}

/**
 * A judge through the AI SDK (npm `ai`, which this package does not depend on) or any SDK of its shape:
 *
 *     import { generateText } from "ai";
 *     import { anthropic } from "@ai-sdk/anthropic";
 *     const judge = aiSdkJudge(generateText, anthropic("claude-sonnet-4-5"), policy.tokenizer);
 */
import { FunctionJudge, type FunctionJudgeOptions, type ModelReply, type TextTokenizer } from "hindsearch";

/** What is used of `generateText`. */
export type GenerateText<Model> = (call: {
  model: Model;
  messages: { role: "system" | "user" | "assistant"; content: string }[];
  temperature: number;
  maxOutputTokens: number;
  maxRetries: number;
  abortSignal: AbortSignal;
}) => Promise<{
  text: string;
  finishReason: string;
  usage: { inputTokens?: number | undefined; outputTokens?: number | undefined };
}>;

const FINISH: Readonly<Record<string, ModelReply["finish"]>> = {
  length: "length",
  "content-filter": "refused",
};

export function aiSdkJudge<Model>(
  generateText: GenerateText<Model>,
  model: Model,
  tokenizer: TextTokenizer,
  options: Omit<FunctionJudgeOptions, "complete" | "tokenizer"> = {},
): FunctionJudge {
  return new FunctionJudge({
    ...options,
    tokenizer,
    complete: async (messages, { signal, maxTokens, temperature }) => {
      const { text, finishReason, usage } = await generateText({
        model,
        messages: [...messages],
        temperature,
        maxOutputTokens: maxTokens,
        maxRetries: 4,
        abortSignal: signal,
      });
      const { inputTokens: promptTokens, outputTokens: completionTokens } = usage;
      const known = promptTokens !== undefined && completionTokens !== undefined;
      return {
        text,
        finish: FINISH[finishReason] ?? "stop",
        ...(known && { usage: { promptTokens, completionTokens } }),
      };
    },
  });
}

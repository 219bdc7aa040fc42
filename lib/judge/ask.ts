import type { Critique, JudgeInput } from "./judge.js";
import { type ModelReply, type ParseOptions, parseCritique } from "./parse.js";
import { type JudgeMessage, type JudgePromptOptions, judgePrompt } from "./prompt.js";

/** One call of a judge's model: at most `maxTokens` new tokens. */
export type AskModel = (messages: readonly JudgeMessage[], maxTokens: number) => Promise<ModelReply>;

/** How a model is asked for a critique. */
export interface AskOptions {
  prompt: JudgePromptOptions;
  parse: ParseOptions;
  maxTokens: number;
}

/**
 * Asks a model for a critique and reads its reply. A reply that reached its limit before the critique was complete is
 * asked for once more with four times the budget: models that think first spend a small one on that.
 *
 * @throws What `ask` throws.
 */
export async function askForCritique(
  ask: AskModel,
  input: JudgeInput,
  { prompt, parse, maxTokens }: AskOptions,
): Promise<Critique> {
  const { messages, nonce } = judgePrompt(input, prompt);
  const first = parseCritique(await ask(messages, maxTokens), nonce, parse);
  if (first.status !== "truncated") return first;
  return parseCritique(await ask(messages, 4 * maxTokens), nonce, parse);
}

import { z } from "zod";
import { RefusedRequest } from "../network/server/refused-request.js";

/** Stop texts of one request; the usual services allow four. */
const MOST_STOPS = 16;

const Stop = z.union([z.string().min(1), z.array(z.string().min(1)).max(MOST_STOPS)]).nullish();
/** Absent, or a value that changes nothing: what is not supported must not be ignored. */
const unsupported = (name: string, ...neutral: unknown[]) =>
  z
    .unknown()
    .optional()
    .refine((value) => value === undefined || value === null || neutral.some((one) => one === value), {
      message: `${name} is not supported`,
    });
const tokens = z.int().min(1).nullish();

const shared = {
  model: z.string(),
  temperature: z.number().min(0).max(10_000).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  /** As vLLM has it. */
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  n: z.int().min(1).nullish(),
  seed: z.int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER).nullish(),
  stop: Stop,
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  frequency_penalty: unsupported("frequency_penalty", 0),
  presence_penalty: unsupported("presence_penalty", 0),
  logit_bias: unsupported("logit_bias"),
};

const Text = z.object({ type: z.literal("text"), text: z.string() });
const Message = z.object({
  role: z.enum(["system", "developer", "user", "assistant"]),
  content: z.union([z.string(), z.array(Text)]),
});

const Chat = z.object({
  ...shared,
  messages: z.array(Message).min(1),
  max_tokens: tokens,
  max_completion_tokens: tokens,
  logprobs: z.boolean().nullish(),
  top_logprobs: unsupported("top_logprobs", 0),
  tools: unsupported("tools"),
  functions: unsupported("functions"),
  audio: unsupported("audio"),
  response_format: z
    .object({ type: z.literal("text", "a response_format other than text is not supported") })
    .nullish(),
});

const Completion = z.object({
  ...shared,
  prompt: z.union([
    z.string(),
    z.array(z.string()).min(1),
    z.array(z.int().min(0)).min(1),
    z.array(z.array(z.int().min(0)).min(1)).min(1),
  ]),
  max_tokens: tokens,
  logprobs: z
    .union(
      [z.literal(0), z.literal(1)],
      "logprobs other than those of the sampled tokens (0) are not supported",
    )
    .nullish(),
  echo: unsupported("echo", false),
  best_of: unsupported("best_of", 1),
  suffix: unsupported("suffix", ""),
});

/** A request for an answer to a conversation. */
export type ChatRequest = z.output<typeof Chat>;
/** A request to write on after a text. */
export type CompletionRequest = z.output<typeof Completion>;

/** @throws {@link RefusedRequest} 400 naming what is wrong. */
export const readChat = (body: unknown): ChatRequest => read(Chat, body);
/** @throws {@link RefusedRequest} 400 naming what is wrong. */
export const readCompletion = (body: unknown): CompletionRequest => read(Completion, body);

function read<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0] as z.core.$ZodIssue;
  throw new RefusedRequest(400, path.length === 0 ? message : `${path.join(".")}: ${message}`);
}

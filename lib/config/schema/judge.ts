import { z } from "zod";
import { chatJudgeShape } from "../../judge/chat.js";
import { MAX_CRITIQUE_TOKENS } from "../../judge/parse.js";
import { policyJudgeShape } from "../../judge/policy-judge.js";
import { DEFAULT_LENGTHS } from "../../judge/prompt.js";
import { described, kind, path, without } from "./fields.js";
import { Decoder } from "./model.js";
import { ENDPOINT_TEXTS, GUARD_TEXTS, keyText } from "./network.js";

const CRITIQUE_TEXTS = {
  maxCritiqueTokens: {
    text: "The longest critique in tokens; more is cut off.",
    default: MAX_CRITIQUE_TOKENS,
  },
  tags: "Tags to take out of critiques. Default: those of the protocol.",
  showGold: { text: "Whether the model is shown the gold answers.", default: true },
  showReasoning: { text: "Whether it is shown what the policy wrote before its searches.", default: true },
  maxPassageLength: {
    text: "Characters of a passage that are shown.",
    default: DEFAULT_LENGTHS.maxPassageLength,
  },
  maxReasoningLength: {
    text: "Characters of the reasoning before each search.",
    default: DEFAULT_LENGTHS.maxReasoningLength,
  },
  maxFieldLength: { text: "Characters of any other text.", default: DEFAULT_LENGTHS.maxFieldLength },
  maxTokens: "Most tokens of a reply.",
  votes: "Critiques asked for per trajectory; more than one needs a temperature above 0.",
  selection: "Which of them is taken.",
  leak: "What happens to critiques that state a gold answer.",
  checks: "Cheap checks of what a critique is about.",
};

/** What a file cannot hold, and what goes without saying. */
const FUNCTIONS = ["tokenizer", "wording", "examples"] as const;

const Chat = z.strictObject({
  kind: kind("chat", "A model behind an OpenAI-compatible chat endpoint."),
  ...described(without(chatJudgeShape, ...FUNCTIONS), {
    ...CRITIQUE_TEXTS,
    ...GUARD_TEXTS,
    baseURL: "Address of the API, e.g. `http://127.0.0.1:8000/v1`.",
    model: "Which model to ask; at least 7 B parameters are advisable.",
    apiKey: keyText("HINDSEARCH_JUDGE_API_KEY"),
    headers: ENDPOINT_TEXTS.headers,
    temperature: "Sampling temperature.",
    seed: "Sent as `seed`, plus the number of the vote. Default: none is sent.",
    maxTokensField: "Under which name `maxTokens` is sent.",
    request: "Further fields of the request; they replace ours.",
    structured: "Whether the server forces the reply into a JSON schema.",
    concurrency: "Requests at work at the same time, at most.",
    timeoutMs: ENDPOINT_TEXTS.timeoutMs,
    deadlineMs: "Milliseconds for one critique with all its attempts.",
    maxResponseBytes: ENDPOINT_TEXTS.maxResponseBytes,
    prices: "What a million tokens cost, for the record and for a budget of money.",
    budget: "A hard limit of tokens or money. Default: none.",
  }),
});

const LocalPolicy = z.strictObject({
  kind: kind("policy", "A frozen local model."),
  folder: path.optional().describe("Its Hugging Face folder. Default: the initial model judges itself."),
  ...described(without(policyJudgeShape, ...FUNCTIONS, "policy", "decoder", "prices", "budget", "seed"), {
    ...CRITIQUE_TEXTS,
    name: "Names the model where critiques are recorded. Default: its folder.",
    chat: "Whether to ask through the model's chat template.",
    templateVariables: "Other variables of the chat template, e.g. `{ enable_thinking: false }`.",
    temperature: "Sampling temperature: 0, or at least 0.0001.",
  }),
  seed: z.int().min(0).default(0).describe("Of the random numbers at a temperature above 0."),
  decoder: Decoder.optional().describe("Size of the decoder's cache and batch."),
});

const None = z.strictObject({ kind: kind("none", "No judge: plain GRPO.") });

const Ensemble = z.strictObject({
  kind: kind(
    "ensemble",
    "Judges in order of preference: each is asked only where those before it gave no critique.",
  ),
  judges: z
    .array(z.discriminatedUnion("kind", [Chat, LocalPolicy]))
    .min(1)
    .describe("The judges."),
});

/** What reads failed trajectories. */
export const Judge = z.discriminatedUnion("kind", [None, Chat, LocalPolicy, Ensemble]).meta({ id: "judge" });

/** See {@link Judge}. */
export type JudgeConfig = z.output<typeof Judge>;
/** Judges that are no ensemble. */
export type SingleJudgeConfig = Exclude<JudgeConfig, { kind: "none" | "ensemble" }>;

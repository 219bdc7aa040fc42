/**
 * A world for examples and tests: eight names, four colours, one fact each. Questions are `colour of ann ?`. Every word
 * is one token, so that a model of 20,000 parameters learns to search in it within a second.
 */
import {
  type Judge,
  MemoryRetriever,
  Policy,
  type Question,
  type SearchProtocol,
  SupervisedTrainer,
  searchR1,
} from "hindsearch";

const ENTITIES = ["ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"];
const VALUES = ["red", "blue", "pink", "grey"];
const CONTROL = ["<pad>", "</s>", "<search>", "</search>", "<info>", "</info>", "<answer>", "</answer>"];
const WORDS = ["hint", "colour", "of", "?", ".", "is", ...ENTITIES, ...VALUES];

/**
 * `tokenizer.json` of a tokenizer with one token per word.
 *
 * @param control - Control tokens, the first ids.
 * @param words - All others, `<unk>` among one of the two.
 */
export function wordTokenizerJson(control: readonly string[], words: readonly string[]) {
  const vocab = Object.fromEntries([...control, ...words].map((word, id) => [word, id]));
  return {
    version: "1.0",
    added_tokens: control.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: { type: "WhitespaceSplit" },
    post_processor: null,
    decoder: null,
    model: { type: "WordLevel", vocab, unk_token: "<unk>" },
  };
}

/** A model of about 20,000 parameters that knows the words. */
export function tinyPolicy(seed = 1): Promise<Policy> {
  const config = {
    model_type: "llama",
    architectures: ["LlamaForCausalLM"],
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 16,
    vocab_size: CONTROL.length + 1 + WORDS.length,
    max_position_embeddings: 96,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    hidden_act: "silu",
    eos_token_id: 1,
  };
  const tokenizer = {
    json: wordTokenizerJson(CONTROL, ["<unk>", ...WORDS]),
    config: { eos_token: "</s>", unk_token: "<unk>" },
  };
  return Policy.initialize({ config, tokenizer, seed, compute: "f32" });
}

const pair = (name: string) => ({ open: `<${name}>`, close: `</${name}>` });

/** Search and answer by control tokens; no chat template, no reasoning. */
export const TINY_PROTOCOL: SearchProtocol = searchR1({
  name: "tiny",
  chat: false,
  tags: { search: pair("search"), information: pair("info"), answer: pair("answer") },
  prompt: (question, hint) => [
    ...(hint === undefined ? [] : [{ text: `hint ${hint} . `, trusted: false }]),
    { text: question, trusted: false },
  ],
  observationFrame: { before: "", after: "" },
  formatPassages: (passages) => passages.map(({ text }) => text).join(" "),
  notice: "",
  maxSearches: 2,
  passagesPerSearch: 1,
  maxTurnTokens: 6,
  maxObservationTokens: 8,
  maxTokens: 64,
});

/** The fact that a question asks for, e.g. `colour of ann ?`. */
export function colourOf(entity: string): string {
  return VALUES[ENTITIES.indexOf(entity) % VALUES.length] as string;
}

/** One question per entity. */
export const TINY_QUESTIONS: Question[] = ENTITIES.map((entity) => ({
  id: entity,
  question: `colour of ${entity} ?`,
  goldAnswers: [colourOf(entity)],
}));

/** Finds the fact about what a query names. */
export const TINY_RETRIEVER = await MemoryRetriever.create(
  ENTITIES.map((entity) => ({ id: entity, title: entity, text: `${entity} is ${colourOf(entity)}` })),
);

/** Names the entity to search for. */
export const TINY_JUDGE: Judge = {
  critique: async ({ question }) => ({ status: "ok", text: question.split(" ")[2] ?? "" }),
};

/**
 * A policy with habits: without a hint it searches for the right entity half of the time, with one it does as told, and
 * one answer in four is another colour than the one found.
 */
export async function warmPolicy(seed = 1, steps = 200): Promise<Policy> {
  const policy = await tinyPolicy(seed);
  const encode = (text: string, trusted: boolean) => policy.tokenizer.encodePrompt([{ text, trusted }]);
  const example = (entity: string, searched: string, hinted: boolean, answered = colourOf(searched)) => {
    const prompt = encode(`${hinted ? `hint ${searched} . ` : ""}colour of ${entity} ?`, false);
    const search = encode(`<search> ${searched} </search>`, true);
    const found = encode(`<info> ${searched} is ${colourOf(searched)} </info>`, true);
    const answer = encode(`<answer> ${answered} </answer>`, true);
    const weights = [
      ...prompt.map(() => 0),
      ...search.map(() => 1),
      ...found.map(() => 0),
      ...answer.map(() => 1),
    ];
    return { tokens: [...prompt, ...search, ...found, ...answer], weights };
  };
  const examples = ENTITIES.flatMap((entity, i) => {
    const other = ENTITIES[(i + 3) % 8] as string;
    const wrong = VALUES[(i + 1) % 4] as string;
    return [false, true].flatMap((hinted) => [
      example(entity, entity, hinted),
      example(entity, entity, hinted, wrong),
      example(entity, other, hinted),
      example(entity, other, hinted),
    ]);
  });
  const learningRate = { kind: "constant", learningRate: 0.01 } as const;
  const trainer = new SupervisedTrainer({ policy, examples, steps, batchSize: 32, learningRate, seed });
  for await (const _ of trainer);
  return policy;
}

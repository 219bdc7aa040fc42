import type { InitializeOptions } from "../policy/policy.js";
import { worldTokenizerConfig, worldTokenizerJson, worldWords } from "./vocabulary.js";

/** Control tokens and the unknown token stand before the words. */
const SPECIAL_TOKENS = 4;

/**
 * A decoder just large enough to read passages of the generated world: three layers of width 96, three heads of 32,
 * 0.3 million parameters, in the form of a Qwen2 model with tied embeddings.
 */
export function worldModel(): Pick<InitializeOptions, "config" | "tokenizer" | "standardDeviation"> {
  const words = worldWords().length + SPECIAL_TOKENS;
  return {
    config: {
      architectures: ["Qwen2ForCausalLM"],
      model_type: "qwen2",
      hidden_size: 96,
      intermediate_size: 192,
      num_hidden_layers: 3,
      num_attention_heads: 3,
      num_key_value_heads: 3,
      max_position_embeddings: 256,
      vocab_size: words,
      rms_norm_eps: 1e-6,
      rope_theta: 10_000,
      tie_word_embeddings: true,
      hidden_act: "silu",
      bos_token_id: 1,
      eos_token_id: 2,
    },
    tokenizer: { json: worldTokenizerJson(), config: worldTokenizerConfig() },
    // 0.7 / sqrt(96): at this width the usual 0.02 starts with signals too small to train quickly.
    standardDeviation: 0.07,
  };
}

import { Random } from "../../lib/data/random.js";
import { type InitializeOptions, Policy } from "../../lib/policy/policy.js";

const sizes = {
  hidden_size: 48,
  intermediate_size: 88,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  vocab_size: 150,
  rms_norm_eps: 1e-6,
  hidden_act: "silu",
  eos_token_id: 2,
};

/** One small `config.json` per supported family; head sizes and tying differ. */
export const smallConfigs = {
  qwen2: {
    ...sizes,
    architectures: ["Qwen2ForCausalLM"],
    model_type: "qwen2",
    rope_theta: 10_000,
    tie_word_embeddings: true,
  },
  qwen3: {
    ...sizes,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    head_dim: 20,
    rope_theta: 10_000,
    tie_word_embeddings: false,
  },
  llama: {
    ...sizes,
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    rope_theta: 10_000,
    rope_scaling: {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    },
    tie_word_embeddings: false,
  },
};

/** A policy with random weights large enough that its distributions are far from flat. */
export function smallPolicy(
  family: keyof typeof smallConfigs = "qwen2",
  options: Omit<InitializeOptions, "config"> = {},
  vocabulary: number = sizes.vocab_size,
): Promise<Policy> {
  return Policy.initialize({
    config: { ...smallConfigs[family], vocab_size: vocabulary },
    seed: 7,
    standardDeviation: 0.2,
    compute: "f32",
    ...options,
  });
}

/** Token ids that depend on the seed alone. */
export function randomTokens(length: number, seed: number): Int32Array {
  const random = new Random(seed);
  return Int32Array.from({ length }, () => random.integer(sizes.vocab_size));
}

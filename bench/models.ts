/** The models that are measured: Qwen2 with tied embeddings and random weights. */
import type { JsonObject } from "hindsearch";

/** Sizes of a decoder. */
export interface ModelShape {
  name: "tiny" | "0.5B";
  layers: number;
  hidden: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  intermediate: number;
  vocabulary: number;
}

const TINY: ModelShape = {
  name: "tiny",
  layers: 4,
  hidden: 256,
  heads: 4,
  kvHeads: 2,
  headDim: 64,
  intermediate: 1024,
  vocabulary: 8192,
};

const HALF: ModelShape = {
  name: "0.5B",
  layers: 24,
  hidden: 896,
  heads: 14,
  kvHeads: 2,
  headDim: 64,
  intermediate: 4864,
  vocabulary: 151_936,
};

/** By name. */
export const MODELS = { tiny: TINY, "0.5B": HALF } as const;

/** Their `config.json`. */
export function configOf(shape: ModelShape): JsonObject {
  return {
    architectures: ["Qwen2ForCausalLM"],
    model_type: "qwen2",
    hidden_size: shape.hidden,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads,
    intermediate_size: shape.intermediate,
    vocab_size: shape.vocabulary,
    max_position_embeddings: 4096,
    rms_norm_eps: 1e-6,
    rope_theta: 1e6,
    tie_word_embeddings: true,
  };
}

/** Parameters of all layers, without embedding, norms and biases, which cost next to nothing. */
export function layerParameters({
  layers,
  hidden,
  heads,
  kvHeads,
  headDim,
  intermediate,
}: ModelShape): number {
  const attention = hidden * (heads + 2 * kvHeads) * headDim + heads * headDim * hidden;
  return layers * (attention + 3 * hidden * intermediate);
}

/** Parameters of the embedding, which is the head too. */
export function headParameters({ hidden, vocabulary }: ModelShape): number {
  return hidden * vocabulary;
}

/** A text of arbitrary tokens. */
export function someTokens(
  length: number,
  { vocabulary }: Pick<ModelShape, "vocabulary">,
  seed = 0,
): Int32Array {
  return Int32Array.from({ length }, (_, i) => ((i + 31 * seed) * 7919 + 13) % vocabulary);
}

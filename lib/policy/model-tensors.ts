import type { ModelTensor, NativeModelConfig } from "../native/model.js";

export type { ModelTensor } from "../native/model.js";

/**
 * Every parameter of a decoder, in the order in which checkpoints are written. A tied model has no `lm_head.weight`.
 *
 * @param config - The sizes.
 */
export function modelTensors(config: NativeModelConfig): ModelTensor[] {
  const { hidden, layers, vocabulary, intermediate, tied } = config;
  const tensors: ModelTensor[] = [{ name: "model.embed_tokens.weight", shape: [vocabulary, hidden] }];
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}`;
    tensors.push(
      { name: `${prefix}.input_layernorm.weight`, shape: [hidden] },
      ...attentionTensors(`${prefix}.self_attn`, config),
      { name: `${prefix}.post_attention_layernorm.weight`, shape: [hidden] },
      { name: `${prefix}.mlp.gate_proj.weight`, shape: [intermediate, hidden] },
      { name: `${prefix}.mlp.up_proj.weight`, shape: [intermediate, hidden] },
      { name: `${prefix}.mlp.down_proj.weight`, shape: [hidden, intermediate] },
    );
  }
  tensors.push({ name: "model.norm.weight", shape: [hidden] });
  if (!tied) tensors.push({ name: "lm_head.weight", shape: [vocabulary, hidden] });
  return tensors;
}

function attentionTensors(prefix: string, config: NativeModelConfig): ModelTensor[] {
  const { hidden, heads, kvHeads, headDim, qkvBias, qkNorm } = config;
  const widths = { q_proj: heads * headDim, k_proj: kvHeads * headDim, v_proj: kvHeads * headDim };
  const tensors: ModelTensor[] = [];
  for (const [projection, width] of Object.entries(widths)) {
    tensors.push({ name: `${prefix}.${projection}.weight`, shape: [width, hidden] });
    if (qkvBias) tensors.push({ name: `${prefix}.${projection}.bias`, shape: [width] });
  }
  if (qkNorm) {
    tensors.push(
      { name: `${prefix}.q_norm.weight`, shape: [headDim] },
      { name: `${prefix}.k_norm.weight`, shape: [headDim] },
    );
  }
  tensors.push({ name: `${prefix}.o_proj.weight`, shape: [hidden, heads * headDim] });
  return tensors;
}

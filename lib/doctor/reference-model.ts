/** A decoder of the simplest kind, in float64 and plain loops: what the engine's numbers are held against. */

/** Sizes of {@link referenceLoss}. Norms have epsilon 1e-6, embeddings are tied, keys and values have one head. */
export interface ReferenceSizes {
  hidden: number;
  heads: number;
  headDim: number;
  intermediate: number;
  vocabulary: number;
  ropeTheta: number;
}

/** Weights by their names in a Hugging Face checkpoint, row-major. */
export type ReferenceWeights = ReadonlyMap<string, Float64Array>;

/**
 * Log-probs of every token of a sequence but the first, given those before it, by a Llama model of one layer.
 */
export function referenceLogProbs(
  tokens: readonly number[],
  sizes: ReferenceSizes,
  weights: ReferenceWeights,
): number[] {
  const { hidden, heads, headDim, intermediate, vocabulary, ropeTheta } = sizes;
  const weight = (name: string) => weights.get(name) as Float64Array;
  const layer = (name: string) => weight(`model.layers.0.${name}.weight`);
  const embedding = weight("model.embed_tokens.weight");
  const states = tokens.map((token) => embedding.slice(token * hidden, (token + 1) * hidden));

  const normed = states.map((state) => norm(state, layer("input_layernorm")));
  const queries = normed.map((state, t) =>
    rotate(product(layer("self_attn.q_proj"), state), headDim, t, ropeTheta),
  );
  const keys = normed.map((state, t) =>
    rotate(product(layer("self_attn.k_proj"), state), headDim, t, ropeTheta),
  );
  const values = normed.map((state) => product(layer("self_attn.v_proj"), state));
  for (const [t, state] of states.entries()) {
    const attended = new Float64Array(heads * headDim);
    for (let head = 0; head < heads; head++) {
      const query = (queries[t] as Float64Array).subarray(head * headDim, (head + 1) * headDim);
      const scores = keys.slice(0, t + 1).map((key) => dot(query, key) / Math.sqrt(headDim));
      const total = logSumExp(scores);
      for (const [s, score] of scores.entries()) {
        const share = Math.exp(score - total);
        for (let d = 0; d < headDim; d++) {
          attended[head * headDim + d] = (attended[head * headDim + d] as number) + share * at(values[s], d);
        }
      }
    }
    add(state, product(layer("self_attn.o_proj"), attended));
    const inner = norm(state, layer("post_attention_layernorm"));
    const gate = product(layer("mlp.gate_proj"), inner);
    const up = product(layer("mlp.up_proj"), inner);
    const active = Float64Array.from(
      { length: intermediate },
      (_, i) => (at(gate, i) / (1 + Math.exp(-at(gate, i)))) * at(up, i),
    );
    add(state, product(layer("mlp.down_proj"), active));
  }
  const finalNorm = weight("model.norm.weight");
  return tokens.slice(1).map((token, t) => {
    const state = norm(states[t] as Float64Array, finalNorm);
    const logits = Array.from({ length: vocabulary }, (_, v) =>
      dot(state, embedding.subarray(v * hidden, (v + 1) * hidden)),
    );
    return (logits[token] as number) - logSumExp(logits);
  });
}

/** Mean cross-entropy of a sequence, its first token aside. */
export function referenceLoss(
  tokens: readonly number[],
  sizes: ReferenceSizes,
  weights: ReferenceWeights,
): number {
  const logProbs = referenceLogProbs(tokens, sizes, weights);
  return -logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length;
}

const at = (array: Float64Array | undefined, i: number) => array?.[i] ?? 0;

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += at(a, i) * at(b, i);
  return sum;
}

/** A matrix times a vector; rows of the matrix are outputs. */
function product(matrix: Float64Array, vector: Float64Array): Float64Array {
  const rows = matrix.length / vector.length;
  return Float64Array.from({ length: rows }, (_, row) =>
    dot(vector, matrix.subarray(row * vector.length, (row + 1) * vector.length)),
  );
}

function add(target: Float64Array, addend: Float64Array): void {
  for (let i = 0; i < target.length; i++) target[i] = at(target, i) + at(addend, i);
}

function norm(state: Float64Array, scale: Float64Array): Float64Array {
  const size = Math.sqrt(dot(state, state) / state.length + 1e-6);
  return state.map((value, i) => (value / size) * at(scale, i));
}

/** Rotary position embedding with halves, as Hugging Face's Llama has it. */
function rotate(vector: Float64Array, headDim: number, position: number, theta: number): Float64Array {
  const half = headDim / 2;
  const rotated = new Float64Array(vector.length);
  for (let start = 0; start < vector.length; start += headDim) {
    for (let i = 0; i < half; i++) {
      const angle = position / theta ** (i / half);
      const [x, y] = [at(vector, start + i), at(vector, start + half + i)];
      rotated[start + i] = x * Math.cos(angle) - y * Math.sin(angle);
      rotated[start + half + i] = y * Math.cos(angle) + x * Math.sin(angle);
    }
  }
  return rotated;
}

function logSumExp(values: readonly number[]): number {
  const largest = Math.max(...values);
  return largest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - largest), 0));
}

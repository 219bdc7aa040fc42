import { HindsearchError } from "../errors.js";
import type { DeviceName } from "../native/addon.js";
import type { ComputeType } from "../native/model.js";
import { logProbTolerance } from "../policy/device.js";
import { Policy } from "../policy/policy.js";
import {
  type ReferenceSizes,
  type ReferenceWeights,
  referenceLogProbs,
  referenceLoss,
} from "./reference-model.js";

/** How far the engine's numbers are from those of float64. */
export interface SelfTestResult {
  /** Largest difference of a log-prob, in nats. */
  logProb: number;
  /** Largest difference of a gradient, as a share of the largest gradient. */
  gradient: number;
}

const SIZES: ReferenceSizes = {
  hidden: 32,
  heads: 4,
  headDim: 8,
  intermediate: 48,
  vocabulary: 64,
  ropeTheta: 10_000,
};
const TOKENS = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3, 23, 8, 46, 2, 6, 43];
/** Weights whose gradient is compared. */
const PROBED = [
  "model.embed_tokens.weight",
  "model.layers.0.self_attn.k_proj.weight",
  "model.layers.0.mlp.down_proj.weight",
  "model.layers.0.input_layernorm.weight",
];
/** Changes of a weight for central differences in float64. */
const DELTA = 1e-5;

/**
 * Largest differences that are let pass. float32 rounds at 6e-8 and bfloat16 at 4e-3, a few dozen times in a row here; a
 * wrong kernel is off by more than that everywhere.
 */
export const TOLERANCE: Readonly<Record<ComputeType, SelfTestResult>> = {
  f32: { logProb: 1e-4, gradient: 1e-3 },
  bf16: { logProb: 0.1, gradient: 0.1 },
};

/**
 * Computes log-probs and gradients of a small model with the engine, and again in float64; decodes, and scores what was
 * decoded, which must give the same bits, on a GPU the same number within {@link logProbTolerance}.
 *
 * @throws {@link HindsearchError} `NON_FINITE` naming what differs by how much; what the engine throws.
 */
export async function selfTest(compute: ComputeType, device: DeviceName = "cpu"): Promise<SelfTestResult> {
  using policy = await Policy.initialize({
    config: CONFIG,
    seed: 5,
    standardDeviation: 0.3,
    compute,
    device,
  });
  const weights = new Map<string, Float64Array>();
  for (const { name } of policy.parameters) weights.set(name, Float64Array.from(await policy.weight(name)));
  const result = {
    logProb: await logProbDifference(policy, weights),
    gradient: await gradientDifference(policy, weights),
  };
  const most = TOLERANCE[compute];
  for (const name of ["logProb", "gradient"] as const) {
    if (result[name] <= most[name]) continue;
    throw new HindsearchError(
      "NON_FINITE",
      `In ${compute} on the ${device === "cpu" ? "processor" : "GPU"} a ${name === "logProb" ? "log-prob" : "gradient"} differs from float64 by ${result[name]}, expected at most ` +
        `${most[name]}: the engine does not compute right on this machine.`,
    );
  }
  await checkDecoding(policy);
  return result;
}

const CONFIG = {
  model_type: "llama",
  architectures: ["LlamaForCausalLM"],
  hidden_size: SIZES.hidden,
  intermediate_size: SIZES.intermediate,
  num_hidden_layers: 1,
  num_attention_heads: SIZES.heads,
  num_key_value_heads: 1,
  head_dim: SIZES.headDim,
  vocab_size: SIZES.vocabulary,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  rope_theta: SIZES.ropeTheta,
  tie_word_embeddings: true,
  hidden_act: "silu",
  eos_token_id: 1,
};

async function logProbDifference(policy: Policy, weights: ReferenceWeights): Promise<number> {
  const [scored] = await policy.score([{ tokens: TOKENS }]);
  const expected = referenceLogProbs(TOKENS, SIZES, weights);
  return Math.max(...expected.map((value, t) => difference(value, scored?.logProbs[t + 1])));
}

async function gradientDifference(policy: Policy, weights: Map<string, Float64Array>): Promise<number> {
  const mask = TOKENS.map((_, t) => (t === 0 ? 0 : 1));
  await policy.forwardBackward([{ tokens: TOKENS, weights: mask }], { crossEntropy: {} });
  const found: number[] = [];
  const expected: number[] = [];
  for (const name of PROBED) {
    const gradient = await policy.gradient(name);
    const weight = weights.get(name) as Float64Array;
    // Spread over the matrix; the first rows of the embedding may not be used.
    for (let i = 7; i < weight.length; i += Math.ceil(weight.length / 9)) {
      const kept = weight[i] as number;
      const lossAt = (value: number) => {
        weight[i] = value;
        return referenceLoss(TOKENS, SIZES, weights);
      };
      expected.push((lossAt(kept + DELTA) - lossAt(kept - DELTA)) / (2 * DELTA));
      weight[i] = kept;
      found.push(gradient[i] ?? Number.NaN);
    }
  }
  await policy.zeroGradients();
  const largest = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => difference(value, found[i]) / largest));
}

/** Not a number is as far away as can be. */
function difference(expected: number, found: number | undefined): number {
  const gap = Math.abs(expected - (found ?? Number.NaN));
  return Number.isNaN(gap) ? Number.POSITIVE_INFINITY : gap;
}

async function checkDecoding(policy: Policy): Promise<void> {
  const tolerance = logProbTolerance(policy);
  const prompt = TOKENS.slice(0, 5);
  const [written] = await policy.generate([prompt], {
    maxNewTokens: 20,
    endTokens: [],
    temperature: 1,
    seed: 1,
  });
  const [scored] = await policy.score([
    { tokens: [...prompt, ...(written?.tokens ?? [])], first: prompt.length },
  ]);
  const different = Array.from(written?.logProbs ?? []).findIndex(
    (value, i) => !(difference(value, scored?.logProbs[prompt.length + i]) <= tolerance),
  );
  if (different < 0 && written?.tokens.length === 20) return;
  throw new HindsearchError(
    "LOG_PROB_MISMATCH",
    `Decoded token ${different} has log-prob ${written?.logProbs[different]}, but is scored with ` +
      `${scored?.logProbs[prompt.length + different]}; ${tolerance === 0 ? "they must have the same bits" : `${tolerance} nats apart are allowed`}.`,
  );
}

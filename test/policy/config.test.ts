import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { parseModelConfig, parseTokenIds, withStorage } from "../../lib/policy/config.js";
import type { JsonObject } from "../../lib/policy/json-file.js";
import { describeShared, sharedPath } from "../support/shared.js";

const qwen2: JsonObject = {
  architectures: ["Qwen2ForCausalLM"],
  model_type: "qwen2",
  hidden_size: 96,
  num_hidden_layers: 3,
  num_attention_heads: 6,
  num_key_value_heads: 2,
  intermediate_size: 192,
  vocab_size: 300,
  max_position_embeddings: 512,
  rope_theta: 1e6,
};
const qwen3: JsonObject = { ...qwen2, architectures: ["Qwen3ForCausalLM"], model_type: "qwen3" };
const llama: JsonObject = { ...qwen2, architectures: ["LlamaForCausalLM"], model_type: "llama" };
const llama3Rope = {
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 64,
};

describe("families", () => {
  test("defaults of a minimal config", () => {
    expect(parseModelConfig(qwen2)).toEqual({
      family: "qwen2",
      config: {
        hidden: 96,
        layers: 3,
        heads: 6,
        kvHeads: 2,
        headDim: 16,
        intermediate: 192,
        vocabulary: 300,
        tokenLimit: 300,
        maxPositions: 512,
        rmsEpsilon: 1e-6,
        ropeTheta: 1e6,
        ropeScaling: null,
        tied: false,
        qkvBias: true,
        qkNorm: false,
      },
      eosTokenIds: [],
      storage: null,
    });
    expect(parseModelConfig(qwen3).config).toMatchObject({ headDim: 128, qkvBias: false, qkNorm: true });
    expect(parseModelConfig(llama).config).toMatchObject({ headDim: 16, qkvBias: false, qkNorm: false });
  });

  test("llama alone has defaults for key heads and rope_theta", () => {
    const { num_key_value_heads: _heads, rope_theta: _theta, ...bare } = llama;
    expect(parseModelConfig(bare).config).toMatchObject({ kvHeads: 6, ropeTheta: 10_000 });
    for (const key of ["num_key_value_heads", "rope_theta"]) {
      expect(() => parseModelConfig({ ...qwen2, [key]: undefined })).toThrow(`${key} is missing`);
    }
  });

  test("given values win over defaults", () => {
    expect(
      parseModelConfig({
        ...qwen3,
        head_dim: 18,
        rms_norm_eps: 1e-5,
        tie_word_embeddings: true,
        eos_token_id: [5, 198, 5],
        torch_dtype: "bfloat16",
      }),
    ).toMatchObject({
      config: { headDim: 18, rmsEpsilon: 1e-5, tied: true },
      eosTokenIds: [5, 198],
      storage: "bf16",
    });
  });
});

describe("config styles", () => {
  test("transformers 5: rope_parameters and dtype", () => {
    const { rope_theta: _theta, ...bare } = llama;
    const parsed = parseModelConfig({
      ...bare,
      rope_parameters: { rope_type: "llama3", rope_theta: 5e5, ...llama3Rope },
      dtype: "float16",
    });
    expect(parsed.storage).toBe("f16");
    expect(parsed.config).toMatchObject({
      ropeTheta: 5e5,
      ropeScaling: { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 64 },
    });
    const plain = { ...bare, rope_parameters: { rope_type: "default", rope_theta: 7e5 } };
    expect(parseModelConfig(plain).config).toMatchObject({ ropeTheta: 7e5, ropeScaling: null });
  });

  test("transformers 4: rope_scaling with its old and new key for the type", () => {
    for (const key of ["type", "rope_type"]) {
      const parsed = parseModelConfig({ ...llama, rope_scaling: { [key]: "llama3", ...llama3Rope } });
      expect(parsed.config.ropeScaling?.factor).toBe(8);
    }
    expect(parseModelConfig({ ...llama, rope_scaling: null }).config.ropeScaling).toBeNull();
  });

  test("withStorage keeps the style", () => {
    expect(withStorage({ ...qwen2, torch_dtype: "float32" }, "bf16").torch_dtype).toBe("bfloat16");
    expect(withStorage({ ...qwen2, dtype: "float32" }, "f16").dtype).toBe("float16");
    expect(withStorage(qwen2, "f32").torch_dtype).toBe("float32");
    expect(withStorage({ ...qwen2, rope_parameters: {} }, "f32")).not.toHaveProperty("torch_dtype");
  });
});

describe("sliding window", () => {
  const windowed = { ...qwen2, sliding_window: 32, max_window_layers: 1 };

  test("is ignored when it is switched off, as transformers does", () => {
    expect(() => parseModelConfig({ ...windowed, use_sliding_window: false })).not.toThrow();
    expect(() => parseModelConfig(windowed)).not.toThrow();
  });

  test("is ignored when no layer or no position can feel it", () => {
    const on = { ...windowed, use_sliding_window: true };
    expect(() => parseModelConfig({ ...on, max_window_layers: 3 })).not.toThrow();
    expect(() => parseModelConfig({ ...on, sliding_window: 512 })).not.toThrow();
    expect(() => parseModelConfig({ ...on, sliding_window: null })).not.toThrow();
    expect(() => parseModelConfig({ ...qwen2, layer_types: ["full_attention"] })).not.toThrow();
  });

  test("is refused when it is in use", () => {
    expect(() => parseModelConfig({ ...windowed, use_sliding_window: true })).toThrow(
      /sliding_window 32 is in use/,
    );
  });
});

describe("what the engine does not compute is refused by name", () => {
  test.each<[string, JsonObject]>([
    ["model_type", { ...qwen2, model_type: "mistral" }],
    ["model_type", { ...qwen2, model_type: "constructor" }],
    ["model_type", { ...qwen2, model_type: undefined }],
    ["architectures", { ...qwen2, architectures: ["LlamaForCausalLM"] }],
    ["architectures", { ...qwen2, architectures: ["Qwen2MoeForCausalLM"] }],
    ["architectures", { ...qwen2, architectures: ["Qwen2ForSequenceClassification"] }],
    ["architectures", { ...qwen2, architectures: null }],
    ["quantization_config", { ...qwen2, quantization_config: { quant_method: "gptq" } }],
    ["num_experts", { ...qwen2, num_experts: 8 }],
    ["num_local_experts", { ...llama, num_local_experts: 8 }],
    ["hidden_act", { ...qwen2, hidden_act: "gelu" }],
    ["attention_bias", { ...llama, attention_bias: true }],
    ["attention_bias", { ...qwen3, attention_bias: true }],
    ["mlp_bias", { ...llama, mlp_bias: true }],
    ["pretraining_tp", { ...llama, pretraining_tp: 2 }],
    ["attention_dropout", { ...qwen2, attention_dropout: 0.1 }],
    ["partial_rotary_factor", { ...llama, partial_rotary_factor: 0.5 }],
    ["partial_rotary_factor", { ...llama, rope_parameters: { rope_theta: 1e4, partial_rotary_factor: 0.5 } }],
    ["layer_types", { ...qwen3, layer_types: ["full_attention", "sliding_attention"] }],
    ["layer_types", { ...qwen3, layer_types: "sliding_attention" }],
    ["rope_scaling.rope_type", { ...qwen2, rope_scaling: { rope_type: "yarn", factor: 4 } }],
    ["rope_scaling.rope_type", { ...qwen2, rope_scaling: { type: "linear", factor: 2 } }],
    ["rope_scaling.rope_type", { ...qwen2, rope_scaling: { type: "dynamic", factor: 2 } }],
    ["rope_parameters.rope_type", { ...qwen2, rope_parameters: { rope_type: "longrope", rope_theta: 1e4 } }],
    ["rope_parameters", { ...qwen2, rope_parameters: { full_attention: { rope_theta: 1e4 } } }],
    ["torch_dtype", { ...qwen2, torch_dtype: "float8_e4m3fn" }],
    ["torch_dtype", { ...qwen2, torch_dtype: "constructor" }],
  ])("%s", (key, raw) => {
    expect(() => parseModelConfig(raw)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    expect(() => parseModelConfig(raw)).toThrow(key);
  });
});

describe("damaged values are refused by name", () => {
  test.each<[string, JsonObject]>([
    ["hidden_size", { ...qwen2, hidden_size: "96" }],
    ["hidden_size", { ...qwen2, hidden_size: -96 }],
    ["hidden_size", { ...qwen2, hidden_size: 1e18 }],
    ["hidden_size", { ...qwen2, hidden_size: undefined }],
    ["num_hidden_layers", { ...qwen2, num_hidden_layers: 0 }],
    ["num_hidden_layers", { ...qwen2, num_hidden_layers: 1.5 }],
    ["num_attention_heads", { ...qwen2, num_attention_heads: [6] }],
    ["num_key_value_heads", { ...qwen2, num_key_value_heads: 4 }],
    ["num_key_value_heads", { ...qwen2, num_key_value_heads: 12 }],
    ["head_dim", { ...qwen2, hidden_size: 97 }],
    ["head_dim", { ...qwen2, head_dim: 15 }],
    ["intermediate_size", { ...qwen2, intermediate_size: null }],
    ["vocab_size", { ...qwen2, vocab_size: 2 ** 40 }],
    ["max_position_embeddings", { ...qwen2, max_position_embeddings: Number.NaN }],
    ["rms_norm_eps", { ...qwen2, rms_norm_eps: 0 }],
    ["rope_theta", { ...qwen2, rope_theta: Number.POSITIVE_INFINITY }],
    ["tie_word_embeddings", { ...qwen2, tie_word_embeddings: "false" }],
    ["use_sliding_window", { ...qwen2, use_sliding_window: 1 }],
    ["rope_scaling", { ...qwen2, rope_scaling: [1] }],
    ["factor", { ...llama, rope_scaling: { rope_type: "llama3" } }],
    ["factor", { ...llama, rope_scaling: { rope_type: "llama3", ...llama3Rope, factor: 0.5 } }],
    [
      "low_freq_factor",
      { ...llama, rope_scaling: { rope_type: "llama3", ...llama3Rope, low_freq_factor: 4 } },
    ],
    ["eos_token_id", { ...qwen2, eos_token_id: 300 }],
    ["eos_token_id", { ...qwen2, eos_token_id: [1, "2"] }],
  ])("%s", (key, raw) => {
    expect(() => parseModelConfig(raw)).toThrow(expect.objectContaining({ code: "INVALID_CHECKPOINT" }));
    expect(() => parseModelConfig(raw)).toThrow(key);
  });

  test("messages stay short whatever the file holds", () => {
    const raw = { ...qwen2, architectures: ["x".repeat(100_000)] };
    expect(() => parseModelConfig(raw)).toThrow(/^.{0,400}$/s);
  });
});

test("parseTokenIds takes one, several or none, once each", () => {
  expect(parseTokenIds(7, "here", 10)).toEqual([7]);
  expect(parseTokenIds([7, 3, 7], "here", 10)).toEqual([7, 3]);
  expect(parseTokenIds(null, "here", 10)).toEqual([]);
  for (const value of [10, -1, 1.5, "1", [true]])
    expect(() => parseTokenIds(value, "here", 10)).toThrow(/^here /);
});

describeShared("published configs", () => {
  const parse = async (...parts: string[]) =>
    parseModelConfig(JSON.parse(await readFile(sharedPath(...parts, "config.json"), "utf8")));

  test.each([
    ["Qwen2.5-0.5B-Instruct", "qwen2", 896, 24, 14, 2, 64, 4864, 151_936, true, 1e6],
    ["Qwen2.5-1.5B-Instruct", "qwen2", 1536, 28, 12, 2, 128, 8960, 151_936, true, 1e6],
    ["Qwen2.5-3B-Instruct", "qwen2", 2048, 36, 16, 2, 128, 11_008, 151_936, true, 1e6],
    ["Qwen2.5-7B-Instruct", "qwen2", 3584, 28, 28, 4, 128, 18_944, 152_064, false, 1e6],
    ["Qwen3-0.6B", "qwen3", 1024, 28, 16, 8, 128, 3072, 151_936, true, 1e6],
    ["Qwen3-1.7B", "qwen3", 2048, 28, 16, 8, 128, 6144, 151_936, true, 1e6],
    ["Qwen3-4B", "qwen3", 2560, 36, 32, 8, 128, 9728, 151_936, true, 1e6],
    ["Qwen3-8B", "qwen3", 4096, 36, 32, 8, 128, 12_288, 151_936, false, 1e6],
  ])(
    "%s",
    async (name, family, hidden, layers, heads, kvHeads, headDim, intermediate, vocabulary, tied, ropeTheta) => {
      expect(await parse("data", "configs", name)).toMatchObject({
        family,
        config: {
          hidden,
          layers,
          heads,
          kvHeads,
          headDim,
          intermediate,
          vocabulary,
          tied,
          ropeTheta,
          rmsEpsilon: 1e-6,
        },
        eosTokenIds: [151_645],
        storage: "bf16",
      });
    },
  );

  test("golden models", async () => {
    expect(await parse("golden", "models", "qwen2_tied")).toMatchObject({
      config: { headDim: 14, tied: true, qkvBias: true },
      storage: "f32",
    });
    expect((await parse("golden", "models", "qwen2_untied_sharded")).config).toMatchObject({
      rmsEpsilon: 1e-5,
    });
    expect(await parse("golden", "models", "qwen3_tied_bf16")).toMatchObject({
      config: { headDim: 18, qkNorm: true },
      storage: "bf16",
    });
    expect(await parse("golden", "models", "llama3_untied")).toMatchObject({
      config: {
        ropeScaling: { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 64 },
      },
      eosTokenIds: [198, 5],
    });
    expect((await parse("data", "model", "stories260k")).config).toMatchObject({ kvHeads: 4, tied: true });
  });
});

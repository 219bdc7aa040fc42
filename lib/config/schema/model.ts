import { z } from "zod";
import { DEVICES } from "../../policy/device.js";
import { count, path } from "./fields.js";

/** Size of a decoder. */
export const Decoder = z.strictObject({
  cacheTokens: count
    .optional()
    .describe(
      "Tokens that the cache holds. Default: `maxBatch` sequences of full length, but at most 1 GiB.",
    ),
  maxBatch: z.int().min(1).max(65_536).default(64).describe("Sequences decoded together."),
  prefillTokens: count.default(512).describe("Tokens of prompts that one step takes in at most."),
});

/** The model, and what it computes with. */
export const Model = z
  .strictObject({
    folder: path.optional().describe("A Hugging Face folder: Qwen2, Qwen2.5, Qwen3 or Llama 3."),
    initialize: z
      .strictObject({
        config: path.describe("A `config.json` of a supported family."),
        tokenizer: path.describe(
          "A folder with `tokenizer.json`, and `tokenizer_config.json` and `chat_template.jinja` if there are any.",
        ),
        seed: z.int().min(0).default(0).describe("Same seed, same weights."),
        standardDeviation: z
          .number()
          .positive()
          .optional()
          .describe("Of the matrices. Default: the config's `initializer_range`, or 0.02."),
      })
      .optional()
      .describe("A model with random weights instead."),
    device: z
      .enum(DEVICES)
      .default("cpu")
      .describe(
        "What computes: the processor, the first GPU that the CUDA driver shows, or that GPU where it can be used and else the processor.",
      ),
    compute: z
      .enum(["auto", "f32", "bf16"])
      .default("auto")
      .describe(
        "What matrix products are computed in; `auto` is `bf16` on a GPU and where the processor has instructions for it.",
      ),
    threads: z
      .int()
      .min(1)
      .max(256)
      .optional()
      .describe("Threads that compute. Default: the physical cores."),
    memoryLimit: z
      .int()
      .min(0)
      .nullable()
      .optional()
      .describe(
        "Bytes that the process may take; what would exceed them is refused beforehand. `null`: nothing is refused. Default: what the machine has.",
      ),
  })
  .refine(({ folder, initialize }) => (folder === undefined) !== (initialize === undefined), {
    message: "give either folder or initialize",
  })
  .meta({ id: "model" });

/** See {@link Model}. */
export type ModelConfig = z.output<typeof Model>;

import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { DeviceName } from "../native/addon.js";
import { callNative, callNativeSync } from "../native/call.js";
import type { ComputeType, NativeModelConfig } from "../native/model.js";
import { packTokens, type Tokens, type TrainingSequence } from "./batch.js";
import type { ModelFamily } from "./config.js";
import { createDecoder, type Decoder } from "./decoder.js";
import { type GeneratedText, type GenerateOptions, generate } from "./generate.js";
import type { ModelTensor } from "./model-tensors.js";
import type { Objective } from "./objective.js";
import { loadOptimizer, saveOptimizer } from "./optimizer-file.js";
import { forwardBackward, score } from "./passes.js";
import type {
  DecoderOptions,
  ForwardBackwardOptions,
  InitializeOptions,
  LoadOptions,
  MemoryOptions,
  ObjectiveResult,
  SaveOptions,
  ScoredSequence,
  ScoreOptions,
  SequenceToScore,
  StepOptions,
  StepResult,
} from "./policy-options.js";
import { initializeParts, loadParts, type PolicyParts, saveParts } from "./policy-parts.js";
import type { Tokenizer } from "./tokenizer.js";

export type * from "./policy-options.js";

/**
 * A language model with its tokenizer: scores, generates, trains, saves.
 *
 * All computing happens on the engine's own thread, one call after the other in the order in which they were made; the
 * event loop is never blocked and no thread of libuv is taken. On the CPU a log-prob is the same bit for bit whether a
 * sequence was decoded, scored or trained on, alone or in any batch, with one thread or several, and the same seed gives
 * the same run; on a GPU both hold within rounding, since its matrix products add in an order that depends on the batch.
 *
 * After {@link dispose} every use is refused with code `DISPOSED`. A policy that is only dropped is freed by the garbage
 * collector, later; loops that make many should dispose of them.
 *
 * @example
 * ```ts
 * using policy = await Policy.load("Qwen2.5-0.5B-Instruct");
 * const [answer] = await policy.generate(["The capital of France is"], { maxNewTokens: 8, temperature: 0 });
 * console.log(answer?.text);
 * ```
 */
export class Policy implements Disposable {
  readonly #parts: PolicyParts;

  private constructor(parts: PolicyParts) {
    this.#parts = parts;
  }

  /**
   * Loads a Hugging Face model folder: Qwen2, Qwen2.5, Qwen3 or Llama-3 with F32, F16 or BF16 safetensors, whole or in
   * shards.
   *
   * @param folder - Untrusted, but for its chat template; see {@link loadTokenizer}.
   * @throws {@link HindsearchError} `UNSUPPORTED_MODEL`, `INVALID_CHECKPOINT`, `IO`, `OUT_OF_MEMORY`, `ABORTED`,
   * `ADDON_NOT_FOUND`, `ADDON_LOAD_FAILED`, or `DEVICE_UNAVAILABLE` for a GPU. On a GPU every later call may also fail
   * with `DEVICE_FAILED`.
   */
  static async load(folder: string, options: LoadOptions = {}): Promise<Policy> {
    return new Policy(await loadParts(folder, options));
  }

  /**
   * Makes a model with random weights: matrices normal, norms 1, biases 0.
   *
   * @throws {@link HindsearchError} `UNSUPPORTED_MODEL` or `INVALID_CHECKPOINT` for what config or tokenizer say,
   * `INVALID_ARGUMENT`, `OUT_OF_MEMORY`, `ADDON_NOT_FOUND`, `ADDON_LOAD_FAILED` or `DEVICE_UNAVAILABLE`.
   */
  static async initialize(options: InitializeOptions): Promise<Policy> {
    return new Policy(await initializeParts(options));
  }

  /** Which architecture the model has. */
  get family(): ModelFamily {
    return this.#parts.family;
  }

  /** Sizes and switches. */
  get config(): Readonly<NativeModelConfig> {
    return this.#parts.config;
  }

  /** Whether there is a tokenizer. */
  get hasTokenizer(): boolean {
    return this.#parts.tokenizer !== null;
  }

  /**
   * Text to ids and back.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a policy without a tokenizer.
   */
  get tokenizer(): Tokenizer {
    const { tokenizer } = this.#parts;
    if (tokenizer !== null) return tokenizer;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "This policy has no tokenizer: its folder has no tokenizer.json, or none was given. It takes and gives ids alone.",
    );
  }

  /** Ids that end a text; may be empty. */
  get eosTokenIds(): readonly number[] {
    return this.#parts.eosTokenIds;
  }

  /** What it computes on. */
  get device(): DeviceName {
    return this.#parts.device;
  }

  /** What matrix products are computed in. */
  get compute(): ComputeType {
    return callNativeSync(() => this.#parts.native.compute);
  }

  /** Whether this is a snapshot, which cannot be trained. */
  get frozen(): boolean {
    return callNativeSync(() => this.#parts.native.frozen);
  }

  /** Grows with every change of the weights. */
  get version(): number {
    return callNativeSync(() => this.#parts.native.version);
  }

  /** Memory held in bytes: weights and what is made of them, gradients, moments, a decoder's buffers; 0 once disposed of. */
  get bytes(): number {
    return this.#parts.native.bytes;
  }

  /** Updates made so far, those before a {@link loadOptimizer} included. */
  get optimizerStep(): number {
    return callNativeSync(() => this.#parts.native.optimizerStep);
  }

  /** Names and shapes of all parameters, as in the weight files. */
  get parameters(): readonly ModelTensor[] {
    return callNativeSync(() => this.#parts.native.parameters);
  }

  /**
   * A frozen copy with the weights of now, as reference or teacher. It shares tokenizer and, until the next step of
   * this policy, memory.
   */
  async snapshot(): Promise<Policy> {
    const native = await callNative(() => this.#parts.native.snapshot());
    return new Policy({ ...this.#parts, native });
  }

  /**
   * Log-probs, and entropies if wanted, of given tokens.
   *
   * @returns One result per sequence, in their order.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`, `NON_FINITE` naming sequence and position, `OUT_OF_MEMORY`,
   * `ABORTED`, `DISPOSED`.
   */
  score(sequences: readonly SequenceToScore[], options: ScoreOptions = {}): Promise<ScoredSequence[]> {
    return score(this.#parts, sequences, options);
  }

  /**
   * Computes an objective over a batch and adds its gradient to the gradients of the parameters, which {@link step}
   * uses up.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`, also for a frozen policy; `NON_FINITE` naming sequence and
   * position; `OUT_OF_MEMORY`, `DISPOSED`; `ABORTED`. A call that fails half way leaves all gradients zero.
   */
  forwardBackward(
    batch: readonly TrainingSequence[],
    objective: Objective,
    options: ForwardBackwardOptions = {},
  ): Promise<ObjectiveResult> {
    return forwardBackward(this.#parts, batch, objective, options);
  }

  /** Global norm of the gradients added up since the last step. */
  gradientNorm(): Promise<number> {
    return callNative(() => this.#parts.native.gradientNorm());
  }

  /** Drops the gradients. */
  zeroGradients(): Promise<void> {
    return callNative(() => this.#parts.native.zeroGradients());
  }

  /**
   * One AdamW update with the gradients added up since the last one, which are then zero.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`, also for a frozen policy; `OUT_OF_MEMORY`, `DISPOSED`.
   */
  step(options: StepOptions): Promise<StepResult> {
    const { learningRate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 } = options;
    const { weightDecay = 0.01, maxGradientNorm = 1 } = options;
    return callNative(() =>
      this.#parts.native.step({ learningRate, beta1, beta2, epsilon, weightDecay, maxGradientNorm }),
    );
  }

  /**
   * A decoder over this policy, for many sequences with texts in between. It shares ownership: it works on after this
   * policy's {@link dispose}.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`, `OUT_OF_MEMORY`, `DISPOSED`.
   */
  createDecoder(options: DecoderOptions & MemoryOptions = {}): Promise<Decoder> {
    return createDecoder(this.#parts, options);
  }

  /**
   * Continues texts. For anything with turns use {@link createDecoder}.
   *
   * @param prompts - Texts, encoded as trusted (control tokens mean what they say), or token ids.
   * @returns One continuation per prompt, in their order.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`, `CONTEXT_FULL`, `NON_FINITE`, `OUT_OF_MEMORY`, `ABORTED`,
   * `DISPOSED`.
   */
  generate(prompts: readonly (string | Tokens)[], options: GenerateOptions = {}): Promise<GeneratedText[]> {
    return generate(this, prompts, options);
  }

  /**
   * Saves a folder that {@link load}, transformers and vLLM can load: `model.safetensors` with the names, and unless
   * told otherwise the types, of the weights that were loaded, whether those were sharded or not; `config.json`,
   * `generation_config.json` and the tokenizer's files unchanged. The weights get their name only when they are whole
   * and on disk.
   *
   * @param folder - Made if it is not there. Weights in it are replaced.
   * @throws {@link HindsearchError} `IO`, `ABORTED`, `DISPOSED`; `INVALID_ARGUMENT` for a weight too large for f16.
   */
  save(folder: string, options: SaveOptions = {}): Promise<void> {
    return saveParts(this.#parts, folder, options);
  }

  /**
   * Saves what training needs to go on exactly from here: float32 master weights, AdamW's moments and the step, as one
   * safetensors file.
   *
   * @throws {@link HindsearchError} `IO`, `ABORTED`, `DISPOSED`.
   */
  saveOptimizer(file: string, { signal }: AbortOptions = {}): Promise<void> {
    return saveOptimizer(this.#parts, file, signal);
  }

  /**
   * Loads what {@link saveOptimizer} saved, into a policy of the same sizes.
   *
   * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if the file is damaged or of another model, `INVALID_ARGUMENT`
   * for a frozen policy, `IO`, `ABORTED`, `DISPOSED`.
   */
  loadOptimizer(file: string, { signal }: AbortOptions = {}): Promise<void> {
    return loadOptimizer(this.#parts, file, signal);
  }

  /** One weight as float32, row-major; for inspection. */
  weight(name: string): Promise<Float32Array> {
    return callNative(() => this.#parts.native.weight(name));
  }

  /** The gradient of one weight as float32, row-major; for inspection. */
  gradient(name: string): Promise<Float32Array> {
    return callNative(() => this.#parts.native.gradient(name));
  }

  /** All logits of a short sequence, row-major [tokens, `config.tokenLimit`]; for inspection. */
  logits(tokens: Tokens): Promise<Float32Array> {
    return callNative(async () => this.#parts.native.logits(packTokens([{ tokens }])));
  }

  /** Frees the memory as soon as the calls already made are done. Idempotent. */
  dispose(): void {
    this.#parts.native.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { Tokens } from "./batch.js";
import { type Decoder, type FinishReason, type SegmentOptions, toUint64 } from "./decoder.js";
import type { DecoderOptions, MemoryOptions } from "./policy-options.js";
import type { Tokenizer } from "./tokenizer.js";

/** Options of {@link Policy.generate}. */
export interface GenerateOptions extends SegmentOptions, DecoderOptions, MemoryOptions, AbortOptions {
  /** Whole, 0 to 2^64 - 1; prompt i draws from stream i. Same seed, same texts. @defaultValue 0 */
  seed?: bigint | number;
  /** As in {@link SegmentOptions}. @defaultValue 256, or what the model's positions leave */
  maxNewTokens?: number;
  /** Called whenever a prompt is finished. */
  onProgress?: (progress: { done: number; total: number }) => void;
}

/** What {@link Policy.generate} wrote after one prompt. */
export interface GeneratedText {
  /** The new tokens as text, without the bytes behind a stop string; empty for a policy without a tokenizer. */
  text: string;
  /** The new tokens, the one that ended the text included. */
  tokens: Int32Array;
  /** Of the distribution each token was drawn from. */
  logProbs: Float32Array;
  /** Why it ended. */
  reason: FinishReason;
}

/** What {@link generate} needs of a policy. */
interface Generator {
  readonly hasTokenizer: boolean;
  /** Throws if there is none. */
  readonly tokenizer: Tokenizer;
  readonly config: { readonly maxPositions: number };
  createDecoder(options: DecoderOptions & MemoryOptions): Promise<Decoder>;
}

/** See {@link Policy.generate}. @internal */
export async function generate(
  policy: Generator,
  prompts: readonly (string | Tokens)[],
  options: GenerateOptions,
): Promise<GeneratedText[]> {
  const { signal, onProgress } = options;
  const seed = toUint64(options.seed ?? 0n, "seed");
  const encoded = prompts.map((prompt) => (typeof prompt === "string" ? encode(policy, prompt) : prompt));
  using decoder = await policy.createDecoder(options);
  const places = new Map<number, number>();
  for (const [place, tokens] of encoded.entries()) {
    const room = Math.max(0, policy.config.maxPositions - tokens.length);
    const maxNewTokens = options.maxNewTokens ?? Math.min(256, room);
    places.set(decoder.submit(tokens, { ...options, maxNewTokens, seed, stream: place }), place);
  }
  const texts: GeneratedText[] = [];
  let done = 0;
  while (done < prompts.length) {
    for (const { sequence, reason, tokens, logProbs, overhang, error } of await decoder.next({ signal })) {
      const place = places.get(sequence) as number;
      if (reason === "failed") throw new HindsearchError("NON_FINITE", `Prompt ${place}: ${error}`);
      texts[place] = { text: decode(policy, tokens, overhang), tokens, logProbs, reason };
      // Its pages may be what others wait for.
      decoder.release(sequence);
      done++;
      onProgress?.({ done, total: prompts.length });
    }
  }
  return texts;
}

function encode({ tokenizer }: Generator, prompt: string): number[] {
  return tokenizer.encodePrompt([{ text: prompt, trusted: true }], { bos: tokenizer.addsBos });
}

function decode(policy: Generator, tokens: Int32Array, overhang: number): string {
  if (!policy.hasTokenizer) return "";
  const { bytes, offsets } = policy.tokenizer.tokenBytes();
  const parts = Array.from(tokens, (id) => bytes.subarray(offsets[id], offsets[id + 1]));
  const text = Buffer.concat(parts);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(text.subarray(0, text.length - overhang));
}

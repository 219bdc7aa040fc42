import type { AbortOptions } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { Addon, DeviceName, MadeModel } from "../native/addon.js";
import { callCancellable, callNative, callNativeSync } from "../native/call.js";
import type {
  DecoderOptions,
  DecoderStats,
  NativeDecoder,
  NativeSegmentOptions,
  RandomKey,
  Sampling,
  Segment,
} from "../native/decoder.js";
import type { NativeModelConfig } from "../native/model.js";
import { type Tokens, toInt32Array } from "./batch.js";
import { decoderSizes } from "./memory/decoder-sizes.js";
import { requireDecoder } from "./memory/limit.js";
import type { MemoryOptions } from "./policy-options.js";
import type { Tokenizer } from "./tokenizer.js";

export type { FinishReason, RandomKey, Sampling, Segment } from "../native/decoder.js";

/** {@link Sampling} with nothing filtered at temperature 1 where a part is left out. */
export type SamplingOptions = Partial<Sampling>;

/**
 * How one segment is decoded: what the model writes between one text of the caller and the next.
 *
 * A segment ends with the first token whose bytes complete a stop string. That token is kept whole;
 * {@link Segment.overhang} says how many of its bytes lie behind the stop. Only bytes written in this segment match,
 * and none across a control token. An end token is kept too. The length limit is looked at last.
 */
export interface SegmentOptions extends SamplingOptions {
  /** Texts that end the segment. @defaultValue none */
  stop?: readonly string[];
  /** Ids that end the segment. @defaultValue the model's end-of-sequence tokens */
  endTokens?: readonly number[];
  /** Most tokens to write; 0 only takes the text in. @defaultValue 256 */
  maxNewTokens?: number;
}

/** Names a stream of random numbers: the token at position p is drawn with number p of the stream. */
export interface RandomStream {
  /** Whole, 0 to 2^64 - 1. @defaultValue 0 */
  seed?: bigint | number;
  /** Whole, 0 to 2^64 - 1. @defaultValue how many sequences this decoder had before */
  stream?: bigint | number;
}

/** Options of {@link Decoder.submit}. */
export interface SubmitOptions extends SegmentOptions, RandomStream {
  /**
   * Most tokens that the sequence will ever hold, later texts included. It enters the batch once there is room for
   * that many, and can then always be finished. @defaultValue prompt and `maxNewTokens`
   */
  reserve?: number;
}

/** Options of {@link Decoder.fork}. */
export interface ForkOptions extends SegmentOptions {
  /** One stream for every new sequence. */
  streams: readonly RandomStream[];
  /** As in {@link SubmitOptions}. @defaultValue that of the sequence forked from */
  reserve?: number;
}

/** What a decoder needs of a policy. */
interface DecoderParts extends MadeModel {
  device: DeviceName;
  config: Readonly<NativeModelConfig>;
  tokenizer: Tokenizer | null;
  eosTokenIds: readonly number[];
}

/**
 * Decodes many sequences at once over one model (continuous batching, paged cache).
 *
 * A sequence alternates between text of the caller and text of the model. It writes until it stops, then waits, at
 * the cost of its cache pages alone, until it is extended, forked or released; the others go on meanwhile. What it
 * writes depends on weights, tokens before, sampling options and random stream, and on nothing else: not on the
 * batch, not on what is cached. Forks share the pages of their common text.
 *
 * The decoder works on whether or not {@link next} is waiting, and follows its model: after an optimizer step
 * sequences go on with the new weights. Collect everything before a step if that is not wanted.
 *
 * Made by {@link Policy.createDecoder}.
 */
export class Decoder implements Disposable {
  readonly #native: NativeDecoder;
  readonly #addon: Addon;
  readonly #endTokens: readonly number[];
  #sequences = 0n;

  /** @internal */
  constructor(native: NativeDecoder, addon: Addon, endTokens: readonly number[]) {
    this.#native = native;
    this.#addon = addon;
    this.#endTokens = endTokens;
  }

  /**
   * Starts a sequence.
   *
   * @param prompt - At least one token.
   * @param options - How to decode.
   * @returns The number that the sequence goes by.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`; `CONTEXT_FULL` if `reserve` exceeds the model's positions or
   * the cache; `DISPOSED`.
   */
  submit(prompt: Tokens, options: SubmitOptions = {}): number {
    const tokens = toInt32Array(prompt, "the prompt");
    const segment = this.#segment(options);
    const number = callNativeSync(() =>
      this.#native.submit(tokens, segment, this.#key(options), options.reserve ?? 0),
    );
    this.#sequences++;
    return number;
  }

  /**
   * Starts sequences from the end of the text that the caller last supplied to another one (its prompt or last
   * extension), whatever that one is doing; it may be released right after.
   *
   * @param sequence - Whose text to share.
   * @param options - How to decode; one new sequence per entry of `streams`.
   * @returns The numbers of the new sequences.
   * @throws {@link HindsearchError} As {@link submit}.
   */
  fork(sequence: number, options: ForkOptions): number[] {
    const keys = options.streams.map((stream, index) => this.#key(stream, BigInt(index)));
    const numbers = callNativeSync(() =>
      this.#native.fork(sequence, keys, this.#segment(options), options.reserve ?? 0),
    );
    this.#sequences += BigInt(numbers.length);
    return numbers;
  }

  /**
   * Appends text to a sequence that has stopped and lets it write on. No text is a continuation.
   *
   * @param sequence - One whose last segment has been collected.
   * @param tokens - May be empty.
   * @param options - How to decode. The random stream stays.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`; `CONTEXT_FULL` if the text exceeds the sequence's `reserve`;
   * `DISPOSED`.
   */
  extend(sequence: number, tokens: Tokens, options: SegmentOptions = {}): void {
    const text = toInt32Array(tokens, "the text");
    callNativeSync(() => this.#native.extend(sequence, text, this.#segment(options)));
  }

  /**
   * Stops a sequence. If it is still writing, its segment ends with reason `cancelled`; if it waits, nothing happens.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an unknown sequence; `DISPOSED`.
   */
  cancel(sequence: number): void {
    callNativeSync(() => this.#native.cancel(sequence));
  }

  /**
   * Ends a sequence and frees its cache pages. Nothing more is heard of it.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` for an unknown sequence; `DISPOSED`.
   */
  release(sequence: number): void {
    callNativeSync(() => this.#native.release(sequence));
  }

  /**
   * Waits until some sequence has stopped. One call at a time. An abort ends the wait alone: sequences go on, and
   * what stops is for the next call.
   *
   * @returns What has stopped since the last call. Empty if nothing can go on without the caller: every sequence
   * waits for text, or queues behind the pages of those that do.
   * @throws {@link HindsearchError} `ABORTED`; `INVALID_ARGUMENT` if a call is open; `DISPOSED`; whatever made the
   * engine fail (`OUT_OF_MEMORY`, say), after which the next call tries again.
   */
  next({ signal }: AbortOptions = {}): Promise<Segment[]> {
    return callCancellable(this.#addon, (cancellation) => this.#native.next(cancellation), signal);
  }

  /** Counters since the decoder was made, and what its sequences are doing. */
  stats(): DecoderStats {
    return callNativeSync(() => this.#native.stats());
  }

  /** Memory held, in bytes; 0 once disposed of. */
  get bytes(): number {
    return this.#native.bytes;
  }

  /** Stops everything and frees the memory; an open {@link next} rejects with `DISPOSED`. Idempotent. */
  dispose(): void {
    this.#native.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  #segment(options: SegmentOptions): NativeSegmentOptions {
    return {
      sampling: {
        temperature: options.temperature ?? 1,
        topK: options.topK ?? 0,
        topP: options.topP ?? 1,
        minP: options.minP ?? 0,
      },
      stops: options.stop ?? [],
      endTokens: options.endTokens ?? this.#endTokens,
      maxNewTokens: options.maxNewTokens ?? 256,
    };
  }

  #key({ seed = 0n, stream }: RandomStream, index = 0n): RandomKey {
    return {
      seed: toUint64(seed, "seed"),
      stream: toUint64(stream ?? this.#sequences + index, "stream"),
    };
  }
}

/**
 * See {@link Policy.createDecoder}.
 *
 * @internal
 */
export async function createDecoder(
  { native, addon, device, config, tokenizer, eosTokenIds }: DecoderParts,
  options: DecoderOptions & MemoryOptions,
): Promise<Decoder> {
  const model = { config, device, compute: callNativeSync(() => native.compute) };
  const sizes = decoderSizes(model, options);
  await requireDecoder(model, sizes, options.memoryLimit);
  const tokenBytes = tokenizer?.tokenBytes() ?? {
    bytes: new Uint8Array(),
    offsets: new Uint32Array(config.tokenLimit + 1),
  };
  const decoder = await callNative(async () => addon.createDecoder(native, sizes, tokenBytes));
  return new Decoder(decoder, addon, eosTokenIds);
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` unless `value` is whole and in [0, 2^64).
 * @internal
 */
export function toUint64(value: bigint | number, name: string): bigint {
  const exact = typeof value === "bigint" || Number.isSafeInteger(value);
  const whole = exact ? BigInt(value) : -1n;
  if (whole < 0n || whole >= 2n ** 64n) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${name} must be a whole number from 0 to 2^64 - 1 (beyond 2^53 as a BigInt), not ${String(value)}.`,
    );
  }
  return whole;
}

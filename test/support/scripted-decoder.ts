import type { SequenceDecoder } from "../../lib/agent/segments.js";
import type { Segment, SegmentOptions } from "../../lib/policy/decoder.js";
import type { Tokenizer } from "../../lib/policy/tokenizer.js";

/** What a scripted policy writes in a turn; control tokens in it are meant. */
export type Script = (context: {
  prompt: string;
  inserted: string[];
  turn: number;
  stream: bigint;
}) => string;

interface Sequence {
  prompt: string;
  tokens: number[];
  inserted: string[];
  turn: number;
  stream: bigint;
}

/**
 * A decoder whose policy follows a script, with the stop rule, limits and bookkeeping of the real one. The log-prob of
 * a token is -(token + 1) / 1024.
 */
export class ScriptedDecoder implements SequenceDecoder {
  readonly sequences = new Map<number, Sequence>();
  /** Segments per call of `next`, in the order in which they came. */
  readonly batches: number[][] = [];
  version = 1;
  /** Milliseconds that `next` takes. */
  delay: (results: number) => number = () => 0;
  /** Makes every segment fail. */
  broken: string | undefined;
  #numbers = 1;
  #ready: Segment[] = [];

  constructor(
    readonly tokenizer: Tokenizer,
    readonly script: Script,
    readonly endTokens: readonly number[] = [256],
  ) {}

  submit: SequenceDecoder["submit"] = (prompt, options = {}) => {
    const sequence = this.#numbers++;
    const tokens = [...prompt];
    const text = this.tokenizer.decode(tokens);
    const state = { prompt: text, tokens, inserted: [], turn: 0, stream: BigInt(options.stream ?? 0) };
    this.sequences.set(sequence, state);
    this.#write(sequence, options);
    return sequence;
  };

  fork: SequenceDecoder["fork"] = (parent, options) => {
    const from = this.#sequence(parent);
    return options.streams.map(({ stream }) => {
      const sequence = this.#numbers++;
      const tokens = this.tokenizer.encodePrompt([{ text: from.prompt, trusted: true }]);
      const state = { prompt: from.prompt, tokens, inserted: [], turn: 0, stream: BigInt(stream ?? 0) };
      this.sequences.set(sequence, state);
      this.#write(sequence, options);
      return sequence;
    });
  };

  extend: SequenceDecoder["extend"] = (sequence, tokens, options = {}) => {
    const state = this.#sequence(sequence);
    state.tokens.push(...tokens);
    state.inserted.push(this.tokenizer.decode(Int32Array.from(tokens)));
    this.#write(sequence, options);
  };

  release: SequenceDecoder["release"] = (sequence) => {
    this.#sequence(sequence);
    this.sequences.delete(sequence);
    this.#ready = this.#ready.filter((segment) => segment.sequence !== sequence);
  };

  next: SequenceDecoder["next"] = async ({ signal } = {}) => {
    const results = this.#ready;
    this.#ready = [];
    const wait = this.delay(results.length);
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (signal?.aborted) throw Object.assign(new Error("aborted"), { code: "ABORTED" });
    this.batches.push(results.map(({ sequence }) => sequence));
    return results;
  };

  #sequence(sequence: number): Sequence {
    const state = this.sequences.get(sequence);
    if (state === undefined) throw new Error(`unknown sequence ${sequence}`);
    return state;
  }

  #write(sequence: number, options: SegmentOptions): void {
    const state = this.#sequence(sequence);
    const text = this.script(state);
    const { maxNewTokens = 256, stop = [], endTokens = this.endTokens } = options;
    const tokens: number[] = [];
    let reason: Segment["reason"] = "length";
    let stopIndex = -1;
    for (const token of this.tokenizer.encodePrompt([{ text, trusted: true }], { atStart: false })) {
      tokens.push(token);
      const written = this.tokenizer.decode(tokens);
      stopIndex = stop.findIndex((stopText) => written.endsWith(stopText));
      if (endTokens.includes(token)) reason = "endToken";
      else if (stopIndex >= 0) reason = "stop";
      if (reason !== "length" || tokens.length === maxNewTokens) break;
    }
    if (reason === "length" && tokens.length < maxNewTokens)
      throw new Error(`script ends without a stop: ${text}`);
    state.tokens.push(...tokens);
    state.turn++;
    this.#ready.push({
      sequence,
      reason: this.broken === undefined ? reason : "failed",
      tokens: Int32Array.from(tokens),
      logProbs: Float32Array.from(tokens, (token) => -(token + 1) / 1024),
      stopIndex,
      overhang: 0,
      firstVersion: this.version,
      lastVersion: this.version,
      ...(this.broken === undefined ? {} : { error: this.broken }),
    });
  }
}

import { type AbortOptions, abortable, onAbort } from "../abort.js";
import { Segments, type SequenceDecoder } from "../agent/segments.js";
import type { Sampling, Segment } from "../policy/decoder.js";
import type { TokenBytes } from "../policy/token-bytes.js";
import { TextWriter } from "./text-writer.js";

/** What to write after a prompt. */
export interface CompletionTask {
  prompt: Int32Array;
  sampling: Readonly<Sampling>;
  /** Texts that end it, themselves left out. */
  stops: readonly string[];
  /** Most tokens, at least 1. */
  maxTokens: number;
  /** Independent texts after the prompt, which is run once. */
  choices: number;
  seed: bigint;
  /** Whether pieces are wanted while it is written. */
  stream: boolean;
}

/** A piece of one choice. */
export interface CompletionPiece {
  /** Which one, from 0. */
  choice: number;
  /** New text; may be empty. */
  text: string;
  /** New tokens, the end token included, and their log-probs. */
  tokens: Int32Array;
  logProbs: Float32Array;
  /** Why it ended: at an end token or a stop text, or at its length; `null` while it goes on. */
  finish: "stop" | "length" | null;
}

/** Tokens between two pieces of a stream. */
const PIECE = 8;
const NOTHING = new Int32Array();

/** Where pieces go. */
export interface CompletionOptions extends AbortOptions {
  /**
   * Called with every piece; those of a choice come in order. Choices are numbered through all tasks. A choice goes on when
   * what it returns is fulfilled.
   */
  onPiece: (piece: CompletionPiece) => Promise<void> | undefined;
}

/**
 * Writes all choices of all tasks at once.
 *
 * Stop texts are looked for here and not by the decoder, which matches within what one call writes: a stream is written
 * in many calls. What comes out is the same, streamed or not.
 *
 * @throws {@link HindsearchError} `ABORTED`, `CONTEXT_FULL`, and what makes the engine fail.
 */
export async function complete(
  decoder: SequenceDecoder,
  table: TokenBytes,
  tasks: readonly CompletionTask[],
  { signal, onPiece }: CompletionOptions,
): Promise<void> {
  const stop = new AbortController();
  const off = onAbort(signal, () => stop.abort(signal?.reason));
  const segments = new Segments(decoder, stop.signal);
  const choices: Promise<void>[] = [];
  try {
    for (const task of tasks) {
      const { prompt, seed, maxTokens } = task;
      const streams = Array.from({ length: task.choices }, (_, stream) => ({ seed, stream }));
      const options = segmentOptions(task, 0);
      for (const { sequence, segment } of segments.start(
        prompt,
        streams,
        options,
        prompt.length + maxTokens,
      )) {
        const choice = choices.length;
        choices.push(
          write(segments, sequence, segment, task, new TextWriter(table, task.stops), (piece) =>
            abortable(Promise.resolve(onPiece({ choice, ...piece })), stop.signal),
          ),
        );
      }
    }
    await Promise.all(choices);
  } finally {
    off();
    // If one choice failed, or a task could not begin, the others end too, and write no piece behind the end of the reply.
    stop.abort();
    segments.releaseAll();
    await Promise.allSettled(choices);
  }
}

async function write(
  segments: Segments,
  sequence: number,
  first: Promise<Segment>,
  task: CompletionTask,
  writer: TextWriter,
  onPiece: (piece: Omit<CompletionPiece, "choice">) => Promise<void>,
): Promise<void> {
  for (let segment = first, written = 0; ; ) {
    const { tokens, logProbs, reason } = await segment;
    written += tokens.length;
    let text = writer.write(tokens);
    const goesOn = reason === "length" && written < task.maxTokens && !writer.stopped;
    if (!goesOn) text += writer.end();
    const ended = writer.stopped || reason === "endToken" ? "stop" : "length";
    const taken = onPiece({ text, tokens, logProbs, finish: goesOn ? null : ended });
    if (!goesOn) segments.release(sequence);
    await taken;
    if (!goesOn) return;
    segment = segments.extend(sequence, NOTHING, segmentOptions(task, written));
  }
}

function segmentOptions({ sampling, stream, stops, maxTokens }: CompletionTask, written: number) {
  const left = maxTokens - written;
  return { ...sampling, maxNewTokens: stream || stops.length > 0 ? Math.min(PIECE, left) : left };
}

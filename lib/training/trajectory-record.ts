import { scopeMask, type TokenScope } from "../agent/masks.js";
import type { Trajectory } from "../agent/trajectory.js";
import { trajectoryToJson } from "../agent/trajectory-json.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import type { TrainingSample } from "./samples.js";

/** Version of the lines of `trajectories.jsonl`; lines without one are of version 1, which had no texts and no columns. */
const VERSION = 2;

/** What a line needs to know beside the sample. */
export interface RecordDetails {
  /** Of the policy: what its tokens say. */
  tokenizer: Pick<Tokenizer, "tokenBytes">;
  /** Tokens of the distillation term; those of queries where there is no term. */
  scope: TokenScope;
  /** Bounds of the weight. */
  clamp: readonly [low: number, high: number];
}

/**
 * The line of `trajectories.jsonl` for a sample: the trajectory, what training made of it, and what a person needs to
 * read it: the text of every token that the policy wrote, and the log-probs of teacher and reference on the tokens of
 * the distillation scope.
 *
 * @param step - Training step.
 */
export function trajectoryRecord(sample: TrainingSample, step: number, details: RecordDetails) {
  const { trajectory, reward, components, advantage, critique } = sample;
  return {
    version: VERSION,
    ...trajectoryToJson(trajectory),
    step,
    pieces: piecesOf(trajectory, details.tokenizer),
    reward,
    components,
    advantage,
    ...signalOf(sample, details),
    ...(critique && { critique }),
  };
}

/**
 * The text of each token that the policy wrote, in order; together they are what it wrote. A character that is cut up
 * between tokens stands at its last one, and bytes that are no text become U+FFFD.
 */
function piecesOf({ tokens, spans }: Trajectory, tokenizer: RecordDetails["tokenizer"]): string[] {
  const { bytes, offsets } = tokenizer.tokenBytes();
  const pieces: string[] = [];
  let decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const flush = () => {
    const rest = decoder.decode();
    if (rest !== "") pieces.push(`${pieces.pop() ?? ""}${rest}`);
    decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  };
  for (const { start, end, kind } of spans) {
    if (kind === "observation" || kind === "notice") {
      flush();
      continue;
    }
    for (const token of tokens.subarray(start, end)) {
      pieces.push(decoder.decode(bytes.subarray(offsets[token], offsets[token + 1]), { stream: true }));
    }
  }
  flush();
  return pieces;
}

/** Absent where neither teacher nor reference scored the trajectory. */
function signalOf(
  { trajectory, teacherLogProbs, referenceLogProbs }: TrainingSample,
  details: RecordDetails,
) {
  if (teacherLogProbs === undefined && referenceLogProbs === undefined) return {};
  const at = [...scopeMask(trajectory, details.scope).entries()].flatMap(([t, bit]) =>
    bit === 1 ? [t] : [],
  );
  if (at.length === 0) return {};
  const [low, high] = details.clamp;
  const column = (values: Float32Array) => at.map((t) => short(values[t] as number));
  return {
    signal: {
      tokens: at,
      ...(teacherLogProbs && {
        teacher: column(teacherLogProbs),
        weights: at.map((t) => {
          const gap = (teacherLogProbs[t] as number) - (trajectory.logProbs[t] as number);
          return short(Math.min(Math.max(gap, low), high));
        }),
      }),
      ...(referenceLogProbs && { reference: column(referenceLogProbs) }),
    },
  };
}

/** Five digits: these columns are read by people and by statistics, never trained on. */
function short(value: number): number {
  return Number(value.toPrecision(5));
}

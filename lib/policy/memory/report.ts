import type { DeviceName } from "../../native/addon.js";
import type { ComputeType, NativeModelConfig } from "../../native/model.js";
import type { Compute, DecoderOptions } from "../policy-options.js";

/**
 * What memory is used for. On a GPU most of it is the GPU's own; what is in the machine's memory beside it is listed apart.
 *
 * - `weights`: float32 master weights. `packedWeights`: their copy in the form that the kernels read; on a GPU in bf16, and
 *   none in f32.
 * - `frozenCopy`: both once more, of the reference and teacher; on a GPU in bf16 the packed weights with embedding, norms and
 *   biases in float32. It shares the policy's memory until the first update; it
 *   is counted from the start.
 * - `gradients`, `moments`: float32, one and two per parameter; there from the first update on.
 * - `rotaryTables`: cosines and sines of the positions.
 * - `activations`: results of a pass that are kept for its backward, or from one layer to the next.
 * - `head`: final norm, logits and softmax; logits exist only as a block of rows times a part of the vocabulary.
 * - `scratch`: operands and tiles that the threads, or the operations of a GPU, keep from one operation to the next.
 * - `cache`: keys and values of the decoder. `decoder`: its logits and the buffers of its passes.
 * - `kept`: buffers of passes that are over, which the engine keeps for the next ones, at most 1 GiB; on a GPU not
 *   counted, since it gives them back before anything fails.
 * - `trajectories`: tokens and log-probs of the trajectories of a step.
 * - `staging`: file bytes on their way into the weights.
 * - `runtime`: Node with this package and what JavaScript builds up around a run; on a GPU what CUDA itself takes.
 */
export type MemoryPart =
  | "weights"
  | "packedWeights"
  | "frozenCopy"
  | "gradients"
  | "moments"
  | "rotaryTables"
  | "activations"
  | "head"
  | "scratch"
  | "cache"
  | "decoder"
  | "kept"
  | "trajectories"
  | "staging"
  | "runtime";

/**
 * A phase of a run: `load` (or initialize), `rollout` (decoding), `scoring` (reference and teacher), `update` (forward,
 * backward and optimizer step).
 */
export type MemoryPhase = "load" | "rollout" | "scoring" | "update";

/** Options of {@link estimateMemory}. */
export interface MemoryEstimateOptions {
  /** What it runs on. @defaultValue that of the policy; for a config `"cpu"` */
  device?: DeviceName;
  /**
   * What matrix products are computed in. @defaultValue that of the policy; for a config `"auto"`, the engine's choice,
   * and `f32`, which needs more, where there is no engine; on a GPU `bf16`
   */
  compute?: Compute;
  /** Ids that the tokenizer knows. @defaultValue all of the vocabulary */
  tokenLimit?: number;
  /** Whether the policy is trained, by gradients and AdamW. @defaultValue true */
  training?: boolean;
  /** Whether there is a frozen copy, the reference and teacher. @defaultValue `training` */
  frozenCopy?: boolean;
  /** The decoder; `false`: none. @defaultValue one with its defaults */
  decoder?: DecoderOptions | false;
  /** Tokens that scoring and training run together. @defaultValue 4096 */
  microBatchTokens?: number;
  /** Tokens of the longest sequence. @defaultValue `microBatchTokens`, or the model's positions if they are fewer */
  longestSequence?: number;
  /** Tokens of the longest sequence that is scored, a hint included. @defaultValue `longestSequence` */
  longestScored?: number;
  /** As in training. @defaultValue true */
  checkpointActivations?: boolean;
  /** Sequences of a step: questions times group size. @defaultValue as many as fill a micro-batch */
  sequences?: number;
  /** Threads that compute. @defaultValue those of the engine for a policy, else the processors of this process */
  threads?: number;
}

/** What one phase needs. */
export interface PhaseEstimate {
  /** All of it, in bytes. */
  bytes: number;
  /** By what it is used for; what is not there takes nothing. */
  parts: Partial<Record<MemoryPart, number>>;
  /** On a GPU, whose memory the two above are of: what is in the machine's memory beside it. */
  host?: {
    /** All of it, in bytes. */
    bytes: number;
    /** By what it is used for. */
    parts: Partial<Record<MemoryPart, number>>;
  };
}

/** What {@link estimateMemory} found. */
export interface MemoryEstimate {
  /** Of the model. */
  parameters: number;
  /** The options with their defaults filled in. */
  settings: MemorySettings;
  /** Phases that the run has, in their order. A number is what there is while the phase runs, at its largest. */
  phases: Partial<Record<MemoryPhase, PhaseEstimate>>;
  /** Each part at its largest, in bytes. */
  parts: Partial<Record<MemoryPart, number>>;
  /** The phase that needs most. */
  peak: {
    /** Which. */
    phase: MemoryPhase;
    /** How many bytes. */
    bytes: number;
  };
}

/** {@link MemoryEstimateOptions} with their defaults filled in. */
export interface MemorySettings extends Required<Omit<MemoryEstimateOptions, "compute" | "decoder">> {
  /** What matrix products are computed in. */
  compute: ComputeType;
  /** Sizes of the decoder; `null`: none. */
  decoder: Required<DecoderOptions> | null;
}

/** A policy, as far as its memory depends on it. */
export interface SizedModel {
  /** Sizes and switches. */
  readonly config: Readonly<NativeModelConfig>;
  /** What matrix products are computed in. */
  readonly compute: ComputeType;
  /** What it computes on. */
  readonly device: DeviceName;
}

/** The parts in words, in the order in which a table lists them. @internal */
export const PART_TITLES: Readonly<Record<MemoryPart, string>> = {
  weights: "weights",
  packedWeights: "packed weights",
  frozenCopy: "frozen copy",
  gradients: "gradients",
  moments: "moments",
  rotaryTables: "rotary tables",
  activations: "activations",
  head: "head",
  scratch: "scratch",
  cache: "cache",
  decoder: "decoder",
  kept: "kept for the next pass",
  trajectories: "trajectories",
  staging: "staging",
  runtime: "runtime",
};

/** @internal */
export function formatBytes(bytes: number): string {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 23 ? 1 : 0)} MiB`;
}

/**
 * An estimate as a table of text: a line per part, a column per phase.
 *
 * @param estimate - Of {@link estimateMemory}.
 */
export function formatEstimate(estimate: MemoryEstimate): string {
  const phases = Object.entries(estimate.phases) as [
    MemoryPhase,
    MemoryEstimate["phases"]["load"] & object,
  ][];
  const cell = (bytes: number | undefined) => (bytes === undefined || bytes === 0 ? "" : formatBytes(bytes));
  const rows = (Object.keys(PART_TITLES) as MemoryPart[])
    .filter((part) => (estimate.parts[part] ?? 0) > 0)
    .map((part) => [PART_TITLES[part], ...phases.map(([, { parts }]) => cell(parts[part]))]);
  const onGpu = estimate.settings.device === "cuda";
  const millions = (estimate.parameters / 1e6).toFixed(1);
  const lines = [
    [
      `${millions} M parameters, ${estimate.settings.compute}${onGpu ? ", GPU" : ""}`,
      ...phases.map(([phase]) => phase),
    ],
    ...rows,
    ["all", ...phases.map(([, { bytes }]) => formatBytes(bytes))],
  ];
  const widths = (lines[0] as string[]).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const table = lines.map((line) =>
    line
      .map((text, i) => (i === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart((widths[i] ?? 0) + 2)))
      .join("")
      .trimEnd(),
  );
  const { phase, bytes } = estimate.peak;
  const host = Math.max(...phases.map(([, { host }]) => host?.bytes ?? 0));
  const beside = onGpu ? ` on the GPU; beside it ${formatBytes(host)} of the machine's memory` : "";
  return [...table, `Peak: ${phase}, ${formatBytes(bytes)}${beside}`].join("\n");
}

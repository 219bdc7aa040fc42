import type { AbortOptions } from "../abort.js";
import type { Critique } from "./critique.js";
import type { JudgeInput } from "./input.js";
import type { JudgeStats } from "./statistics.js";

/** Reads a failed trajectory and writes one or two sentences on which search should have been made. */
export interface Judge {
  /**
   * Called when a trajectory ends, while others are still being decoded: many calls may be open, and their order is no fixed
   * one. For the same run from the same seed, a critique may depend on its input alone.
   *
   * @param input - The trajectory.
   * @param options - `signal` ends the call.
   * @returns The critique, or why there is none: a failing judge is a value, not an exception.
   * @throws {@link HindsearchError} `ABORTED`, and `INVALID_ARGUMENT` on a malformed input; nothing else.
   */
  critique(input: JudgeInput, options?: AbortOptions): Promise<Critique>;

  /** What it did so far, for logs; the trainer writes it to its metrics. */
  stats?(): JudgeStats;

  /**
   * What it needs back after an interruption, so that budget and figures hold for the whole run; plain JSON without
   * secrets. Goes into checkpoints.
   */
  state?(): unknown;

  /**
   * Goes on from such a state, before its first call.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if it is another judge's; then nothing is changed.
   */
  restore?(state: unknown): void;

  /**
   * What its critiques depend on beside their input: model, version of the prompt, parameters. Critiques are recorded
   * under it. No secrets.
   */
  readonly identity?: string | undefined;
}

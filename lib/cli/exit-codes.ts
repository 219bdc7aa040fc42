import { HindsearchError, type HindsearchErrorCode } from "../errors.js";

/** Exit codes of the command line, documented in docs/command-line.md. */
export const EXIT = {
  ok: 0,
  /** Anything without a code of its own. */
  failure: 1,
  /** The command line or the configuration is wrong. */
  usage: 2,
  /** A file, a model or an index cannot be used. */
  data: 3,
  /** A service did not answer, or answered something unusable. */
  service: 4,
  /** The machine lacks something: the engine, memory, a package. */
  machine: 5,
  /** The computation went wrong. */
  computation: 6,
  interrupted: 130,
  terminated: 143,
} as const;

const CODES: Partial<Record<HindsearchErrorCode, number>> = {
  INVALID_ARGUMENT: EXIT.usage,
  INVALID_CONFIGURATION: EXIT.usage,
  UNSUPPORTED_MODEL: EXIT.data,
  INVALID_CHECKPOINT: EXIT.data,
  INVALID_DATA: EXIT.data,
  INDEX_MISMATCH: EXIT.data,
  CHAT_TEMPLATE: EXIT.data,
  CONTEXT_FULL: EXIT.data,
  IO: EXIT.data,
  RUN_LOCKED: EXIT.data,
  RUN_MISMATCH: EXIT.data,
  RETRIEVAL_FAILED: EXIT.service,
  ADDON_NOT_FOUND: EXIT.machine,
  ADDON_LOAD_FAILED: EXIT.machine,
  DEVICE_UNAVAILABLE: EXIT.machine,
  OUT_OF_MEMORY: EXIT.machine,
  DEPENDENCY_MISSING: EXIT.machine,
  NON_FINITE: EXIT.computation,
  LOG_PROB_MISMATCH: EXIT.computation,
  DEVICE_FAILED: EXIT.computation,
};

/** The exit code of an error. */
export function exitCodeOf(error: unknown): number {
  return error instanceof HindsearchError ? (CODES[error.code] ?? EXIT.failure) : EXIT.failure;
}

/**
 * Every code that a {@link HindsearchError} can carry. Codes are stable: a program may branch on them,
 * messages may change. The native side uses the same words (native/core/error.h).
 */
export const HindsearchErrorCode = {
  /** No binary of the native engine exists for this machine, and none was built. */
  ADDON_NOT_FOUND: "ADDON_NOT_FOUND",
  /** A binary exists but the system refused to load it, or it belongs to another version. */
  ADDON_LOAD_FAILED: "ADDON_LOAD_FAILED",
  /** The GPU that was asked for cannot be used: no engine for it, no driver, no GPU, no cuBLAS; the message says which. */
  DEVICE_UNAVAILABLE: "DEVICE_UNAVAILABLE",
  /** The GPU failed while it computed. */
  DEVICE_FAILED: "DEVICE_FAILED",
  /** A value passed to the API is outside what is documented. */
  INVALID_ARGUMENT: "INVALID_ARGUMENT",
  /** A configuration file is wrong; the message names line and key, what was found and what was expected. */
  INVALID_CONFIGURATION: "INVALID_CONFIGURATION",
  /** The native engine could not allocate memory, or it is clear beforehand that it could not. */
  OUT_OF_MEMORY: "OUT_OF_MEMORY",
  /** A fault of this package; please report it. */
  INTERNAL: "INTERNAL",
  /** The caller's `AbortSignal` ended the call. */
  ABORTED: "ABORTED",
  /** The model uses a feature that the engine does not implement; the message names it. */
  UNSUPPORTED_MODEL: "UNSUPPORTED_MODEL",
  /** A model folder or checkpoint is incomplete, damaged or contradicts itself. */
  INVALID_CHECKPOINT: "INVALID_CHECKPOINT",
  /** A row of a data file is damaged, too large or lacks what it needs; the message names file and line. */
  INVALID_DATA: "INVALID_DATA",
  /** A chat template fails, or does not place every message exactly once. */
  CHAT_TEMPLATE: "CHAT_TEMPLATE",
  /** Reading or writing a file failed. */
  IO: "IO",
  /** A NaN or an infinity where the computation needs a number. */
  NON_FINITE: "NON_FINITE",
  /** A sequence is longer than the model's positions, the decoder's cache or its own reserve allow. */
  CONTEXT_FULL: "CONTEXT_FULL",
  /** The object was used after `dispose()` or `close()`. */
  DISPOSED: "DISPOSED",
  /** A search failed: the engine or the search service did not answer, or answered something unusable. */
  RETRIEVAL_FAILED: "RETRIEVAL_FAILED",
  /** A search index was built from another corpus, with another embedding model or settings, or by a newer version. */
  INDEX_MISMATCH: "INDEX_MISMATCH",
  /** A package that this feature needs is not installed; the message says which. */
  DEPENDENCY_MISSING: "DEPENDENCY_MISSING",
  /** Another process writes to the run folder. */
  RUN_LOCKED: "RUN_LOCKED",
  /** The run folder was written with other settings, for other questions, or by a newer version. */
  RUN_MISMATCH: "RUN_MISMATCH",
  /** The log-probs of a rollout are not those that the trainer computes. */
  LOG_PROB_MISMATCH: "LOG_PROB_MISMATCH",
} as const;

/** One of the values of the {@link HindsearchErrorCode} table. */
export type HindsearchErrorCode = (typeof HindsearchErrorCode)[keyof typeof HindsearchErrorCode];

/** What is known about an error beside its message. */
export interface ErrorDetails extends ErrorOptions {
  /** See {@link HindsearchError.retryable}. Default: what the cause says. */
  retryable?: boolean | undefined;
  /** See {@link HindsearchError.retryAfterMs}. Default: what the cause says. */
  retryAfterMs?: number | undefined;
}

/**
 * The one error class of this package. `code` says what happened in a stable word, `message` says what,
 * where, what was expected, what was found and what to do, and `cause` holds the error underneath, if any.
 */
export class HindsearchError extends Error {
  /** The class name, for logs. */
  override readonly name = "HindsearchError";
  /** What happened, as a stable word. */
  readonly code: HindsearchErrorCode;
  /** Of a failed search: whether the same call may end otherwise later. Absent where that is not known. */
  declare readonly retryable?: boolean;
  /** Milliseconds after which it is worth trying again, where that is known. */
  declare readonly retryAfterMs?: number;

  /**
   * @param code - What happened.
   * @param message - What, where, expected, found, and what to do.
   * @param options - `cause`: the error underneath; what else is known.
   */
  constructor(code: HindsearchErrorCode, message: string, options: ErrorDetails = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    const told = (options.cause ?? {}) as { [key in keyof ErrorDetails]: unknown };
    const retryable = options.retryable ?? told.retryable;
    const retryAfterMs = options.retryAfterMs ?? told.retryAfterMs;
    if (typeof retryable === "boolean") this.retryable = retryable;
    // The cause may be foreign.
    if (Number.isFinite(retryAfterMs)) this.retryAfterMs = retryAfterMs as number;
  }

  /**
   * Gives an error of the native engine its class. An error that carries one of our codes becomes a
   * `HindsearchError` with the original as `cause`; anything else comes back unchanged, so that a
   * `TypeError` of the language and the errors of user callbacks keep their identity.
   *
   * @param error - What was thrown.
   * @internal
   */
  static from(error: unknown): unknown {
    if (
      error instanceof Error &&
      !(error instanceof HindsearchError) &&
      "code" in error &&
      isCode(error.code)
    ) {
      return new HindsearchError(error.code, error.message, { cause: error });
    }
    return error;
  }
}

function isCode(value: unknown): value is HindsearchErrorCode {
  return typeof value === "string" && Object.hasOwn(HindsearchErrorCode, value);
}

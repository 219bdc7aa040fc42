import { HindsearchError } from "../errors.js";

/** What can be done about an error of the system. */
const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: " The disk is full: free some space, then resume from the last checkpoint.",
  EDQUOT: " The quota is used up: free some space, then resume from the last checkpoint.",
  EFBIG: " The file is larger than the system or a limit of the process (ulimit -f) allows.",
  EROFS: " The file system is read-only: choose another folder.",
  EACCES: " Writing needs permission for the folder and all files in it.",
  EPERM: " Writing needs permission for the folder and all files in it.",
};

/** What the native engine's messages say of these. */
const NATIVE: readonly [RegExp, string][] = [
  [/no space left on device/i, "ENOSPC"],
  [/quota exceeded/i, "EDQUOT"],
  [/file too large/i, "EFBIG"],
];

/**
 * Runs `body`; what the system refuses becomes an `IO` error that says what was tried and what to do.
 *
 * @throws {@link HindsearchError} `IO`; what is no error of the system comes through.
 * @internal
 */
export async function io<T>(what: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    const code = codeOf(cause);
    if (code === undefined) throw cause;
    throw new HindsearchError("IO", `Could not ${what}: ${(cause as Error).message}.${ADVICE[code] ?? ""}`, {
      cause,
    });
  }
}

/** Why the system refused something; `undefined` if it did not, or if that was said already. */
function codeOf(cause: unknown): string | undefined {
  if (!(cause instanceof Error)) return undefined;
  if (!(cause instanceof HindsearchError)) {
    return "syscall" in cause ? (cause as NodeJS.ErrnoException).code : undefined;
  }
  if (cause.code !== "IO" || cause.message.startsWith("Could not")) return undefined;
  return NATIVE.find(([pattern]) => pattern.test(cause.message))?.[1];
}

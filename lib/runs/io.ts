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
    if (!(cause instanceof Error) || !("syscall" in cause)) throw cause;
    const advice = ADVICE[(cause as NodeJS.ErrnoException).code ?? ""] ?? "";
    throw new HindsearchError("IO", `Could not ${what}: ${cause.message}.${advice}`, { cause });
  }
}

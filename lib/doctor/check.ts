import { HindsearchError, type HindsearchErrorCode } from "../errors.js";
import { foreignReason } from "../network/secrets.js";

/** What a check found. */
export interface CheckResult {
  /** What was looked at. */
  name: string;
  /** `skipped`: there was nothing to look at. */
  status: "ok" | "warning" | "failed" | "skipped";
  /** Figures, or what is wrong and what to do. */
  detail: string;
  /** Of the error, if it failed. */
  code?: HindsearchErrorCode;
  /** Wall-clock time. */
  milliseconds: number;
}

/** What a check finds when it does not fail. */
export type Finding = string | { status: "warning" | "skipped"; detail: string };

/** Something to look at; an error that it throws is what is wrong. */
export interface Check {
  name: string;
  run: () => Promise<Finding> | Finding;
}

/**
 * Runs checks one after the other; one that fails does not keep the others.
 *
 * @param onResult - Hears of each as it ends.
 */
export async function runChecks(
  checks: readonly Check[],
  onResult: (result: CheckResult) => void,
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for (const { name, run } of checks) {
    const started = performance.now();
    const outcome = await Promise.resolve()
      .then(run)
      .then(
        (finding) => (typeof finding === "string" ? { status: "ok" as const, detail: finding } : finding),
        (error) => ({
          status: "failed" as const,
          detail: error instanceof HindsearchError ? error.message : foreignReason(error),
          ...(error instanceof HindsearchError && { code: error.code }),
        }),
      );
    const result = { name, ...outcome, milliseconds: performance.now() - started };
    results.push(result);
    onResult(result);
  }
  return results;
}

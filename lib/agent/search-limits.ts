import { HindsearchError } from "../errors.js";
import type { OutagePolicy } from "./outage.js";

/** How long and how often searches are tried. */
export interface SearchLimits {
  /** Further attempts for a query whose search failed, alone and not in a batch. */
  retries: number;
  /** Milliseconds for one call of the retriever, which counts as failed when they are over. */
  deadline: number;
  /** Calls of the retriever at the same time. */
  concurrency: number;
  /** What happens when the service is gone. */
  outage: OutagePolicy;
  /** Milliseconds that are waited for the service, all outages together. */
  maxOutageMs: number;
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming the option of a rollout that is wrong.
 * @internal
 */
export function checkSearchLimits(limits: SearchLimits): void {
  const { retries, deadline, concurrency, outage, maxOutageMs } = limits;
  const check = (name: string, value: number, least: number, most: number) => {
    if (Number.isInteger(value) && value >= least && value <= most) return;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${name} is ${value}, expected a whole number from ${least} to ${most}.`,
    );
  };
  check("searchRetries", retries, 0, 1000);
  // Timers count in 31 bits; a longer one would fire at once.
  check("searchDeadline", deadline, 1, 2 ** 31 - 1);
  check("searchConcurrency", concurrency, 1, 65_536);
  check("maxOutageMs", maxOutageMs, 0, 2 ** 31 - 1);
  if (outage === "pause" || outage === "fail") return;
  throw new HindsearchError("INVALID_ARGUMENT", `outage is ${outage}, expected "pause" or "fail".`);
}

import { HindsearchError } from "../errors.js";
import type { OutagePolicy } from "./outage.js";

/** How searches that fail are treated. */
export interface SearchFailureOptions {
  /** Further attempts for a query whose search failed, alone and not in a batch. Default 1. */
  searchRetries?: number;
  /** Milliseconds for one call of the retriever, which counts as failed when they are over. Default 60,000. */
  searchDeadline?: number;
  /** Calls of the retriever at the same time; queries that wait meanwhile leave together. Default 2. */
  searchConcurrency?: number;
  /**
   * What happens when the search service is gone, which is when a search fails for what may pass and a control query
   * fails as well. Default `pause`: trajectories that search wait, the others go on, and the service is tried again with
   * growing waits until it answers; what comes out is the same as without the outage. With `fail` their searches fail.
   * What no repetition changes (a refused query, a closed retriever, an answer in another form) is never waited for.
   */
  outage?: OutagePolicy;
  /**
   * Milliseconds that the rollout waits for the service, all its outages together; searches that fail then are failed.
   * Default 3,600,000, an hour.
   */
  maxOutageMs?: number;
  /**
   * The rollout rejects once more than this share of its trajectories lost a search. Default 0.1. Below it they are
   * `search failed`, which has no reward and no part in its group.
   */
  maxFailedShare?: number;
}

/** The same with every default filled in. */
export type SearchSettings = Required<SearchFailureOptions>;

/**
 * Fills in the defaults; other properties are left out.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` naming the option that is wrong.
 * @internal
 */
export function searchSettings(options: Readonly<SearchFailureOptions>): SearchSettings {
  const settings: SearchSettings = {
    searchRetries: options.searchRetries ?? 1,
    searchDeadline: options.searchDeadline ?? 60_000,
    searchConcurrency: options.searchConcurrency ?? 2,
    // Over night a server is restarted or an index loaded anew; that must not cost the run. Who is gone for an hour needs
    // a person, and a run that ends is what a person or a supervisor notices.
    outage: options.outage ?? "pause",
    maxOutageMs: options.maxOutageMs ?? 3_600_000,
    maxFailedShare: options.maxFailedShare ?? 0.1,
  };
  // Timers count in 31 bits; a longer one would fire at once.
  const longest = 2 ** 31 - 1;
  requireWhole(settings, "searchRetries", 0, 1000);
  requireWhole(settings, "searchDeadline", 1, longest);
  requireWhole(settings, "searchConcurrency", 1, 65_536);
  requireWhole(settings, "maxOutageMs", 0, longest);
  const { outage, maxFailedShare } = settings;
  if (outage !== "pause" && outage !== "fail") throw wrong("outage", outage, '"pause" or "fail"');
  if (!(maxFailedShare >= 0 && maxFailedShare <= 1)) {
    throw wrong("maxFailedShare", maxFailedShare, "a number from 0 to 1");
  }
  return settings;
}

function requireWhole(
  settings: SearchSettings,
  name: "searchRetries" | "searchDeadline" | "searchConcurrency" | "maxOutageMs",
  least: number,
  most: number,
): void {
  const value = settings[name];
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw wrong(name, value, `a whole number from ${least} to ${most}`);
}

function wrong(name: string, value: unknown, expected: string): HindsearchError {
  return new HindsearchError("INVALID_ARGUMENT", `${name} is ${value}, expected ${expected}.`);
}

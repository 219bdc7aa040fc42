import type { SpanKind, Trajectory } from "./trajectory.js";

/**
 * Which tokens the distillation term may act on.
 *
 * - `search`: strictly inside the tags of executed searches (HindSearch's own).
 * - `search-with-tags`: those and the tags around them.
 * - `think`: reasoning text.
 * - `answer`: strictly inside the answer tags.
 * - `all`: everything the policy wrote.
 */
export type TokenScope = "search" | "search-with-tags" | "think" | "answer" | "all";

const WRITTEN: ReadonlySet<SpanKind> = new Set(["think", "search", "answer", "tag"]);

/** Length T of `trajectory.tokens`, 1 where the policy wrote the token, 0 in observations and notices. */
export function policyMask(trajectory: Trajectory): Uint8Array {
  return markKinds(trajectory, (kind) => WRITTEN.has(kind));
}

/** Length T of `trajectory.tokens`, 1 on the tokens of `scope`; a subset of {@link policyMask}. */
export function scopeMask(trajectory: Trajectory, scope: TokenScope): Uint8Array {
  switch (scope) {
    case "all":
      return policyMask(trajectory);
    case "search-with-tags":
      return searchWithTagsMask(trajectory);
    default:
      return markKinds(trajectory, (kind) => kind === scope);
  }
}

/** How many tokens the policy wrote: those of {@link policyMask}. */
export function countPolicyTokens({ spans }: Trajectory): number {
  return spans.reduce((sum, { start, end, kind }) => sum + (WRITTEN.has(kind) ? end - start : 0), 0);
}

/** How many tokens a mask has. */
export function countMask(mask: Uint8Array): number {
  let count = 0;
  for (const bit of mask) count += bit;
  return count;
}

function markKinds(trajectory: Trajectory, wanted: (kind: SpanKind) => boolean): Uint8Array {
  const mask = new Uint8Array(trajectory.tokens.length);
  for (const { start, end, kind } of trajectory.spans) if (wanted(kind)) mask.fill(1, start, end);
  return mask;
}

/** A tag belongs to a search if it touches the query: the tags of an answer do not. */
function searchWithTagsMask(trajectory: Trajectory): Uint8Array {
  const mask = scopeMask(trajectory, "search");
  for (const { start, end } of trajectory.searches) {
    for (const span of trajectory.spans) {
      if (span.kind === "tag" && span.end >= start && span.start <= end) mask.fill(1, span.start, span.end);
    }
  }
  return mask;
}

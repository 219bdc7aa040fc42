import type { Passage } from "../passage.js";

/**
 * Reciprocal rank fusion: every passage of any list, by the sum of `1 / (k + rank)` over the lists that it is in, ranks
 * counted from 1. Equal sums keep the order of the first list, then of the next.
 */
export function fuse(lists: readonly (readonly Passage[])[], k: number): Passage[] {
  const fused = new Map<string, Passage & { score: number }>();
  for (const list of lists) {
    for (const [i, passage] of list.entries()) {
      const score = (fused.get(passage.id)?.score ?? 0) + 1 / (k + i + 1);
      fused.set(passage.id, { ...passage, score });
    }
  }
  // The sort is stable, and the map has the passages in the order in which they first came.
  return [...fused.values()].sort((x, y) => y.score - x.score);
}

/**
 * The word that a misspelt one probably means: the nearest by insertions, deletions, replacements and swaps of
 * neighbours, letter case aside, if no more than a third of the letters are wrong.
 */
export function nearestWord(word: string, words: readonly string[]): string | undefined {
  const wanted = word.toLowerCase();
  let best: { word: string; distance: number } | undefined;
  for (const candidate of words) {
    const distance = editDistance(wanted, candidate.toLowerCase());
    const most = Math.max(1, Math.floor(Math.max(wanted.length, candidate.length) / 3));
    if (distance <= most && distance < (best?.distance ?? Number.POSITIVE_INFINITY))
      best = { word: candidate, distance };
  }
  return best?.word;
}

/** Optimal string alignment distance. Words longer than 64 characters are nobody's keys. */
function editDistance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number) => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : replaced;
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped));
    }
  }
  return at(a.length, b.length);
}

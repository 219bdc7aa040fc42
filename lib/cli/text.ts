/** What could steer a terminal, or make a line read otherwise than it is: control and formatting characters. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** A foreign text for a terminal: one line, nothing that a terminal obeys. */
export function oneLine(text: string, most = Number.POSITIVE_INFINITY): string {
  // Cut first: a passage may have megabytes.
  const line = text
    .slice(0, 8 * Math.min(most, 2 ** 20))
    .replaceAll(/\s+/g, " ")
    .replaceAll(UNPRINTABLE, "\ufffd")
    .trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** The same over several lines. */
export function manyLines(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => oneLine(line))
    .join("\n");
}

/** `42 ms`, `4.2 s`, `42 s`, `3 min 20 s`, `1 h 05 min`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 999.5) return `${milliseconds.toFixed(0)} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 100) return milliseconds < 9_950 ? `${(milliseconds / 1000).toFixed(1)} s` : `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** `0.123`, or `-` where there is none. */
export function score(value: number | null | undefined): string {
  return value === null || value === undefined || Number.isNaN(value) ? "-" : value.toFixed(3);
}

/** `12.3` below a hundred, else `1234`. */
export function rate(count: number, milliseconds: number): string {
  const perSecond = milliseconds > 0 ? (1000 * count) / milliseconds : 0;
  return perSecond >= 100 ? perSecond.toFixed(0) : perSecond.toFixed(1);
}

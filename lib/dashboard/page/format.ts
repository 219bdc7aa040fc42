/** A number for a table; an en dash where there is none. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.max(0, digits - 1));
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

/** A share, e.g. an exact match: three decimals, so that columns line up. */
export function share(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}

/** With its sign. */
export function signed(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${number(Math.abs(value), digits)}`;
}

/** A stretch of time in seconds. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${number(seconds, 2)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** With separators of thousands. */
export function count(value: number): string {
  return value.toLocaleString("en");
}

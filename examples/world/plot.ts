/** Learning curves as text and as SVG. */

/** One curve: evaluation score in [0, 1] by step. */
export interface Curve {
  name: string;
  points: readonly { step: number; value: number }[];
}

const COLOURS = ["#6b7280", "#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed"];

const SYMBOLS = ["o", "#", "+", "x", "*", "%"];

/** A plot for the terminal, a symbol for each curve; where curves meet, the later one is seen. */
export function textPlot(curves: readonly Curve[], width = 61, height = 17): string {
  const last = Math.max(1, ...curves.flatMap(({ points }) => points.map(({ step }) => step)));
  const rows = Array.from({ length: height }, () => Array.from({ length: width }, () => " "));
  for (const [i, { points }] of curves.entries()) {
    for (let column = 0; column < width; column++) {
      const value = interpolate(points, (last * column) / (width - 1));
      const row = rows[Math.round((height - 1) * (1 - value))];
      if (row) row[column] = SYMBOLS[i % SYMBOLS.length] as string;
    }
  }
  const body = rows.map((row, r) => {
    const label = r % 4 === 0 ? (1 - r / (height - 1)).toFixed(2) : "";
    return `${label.padStart(7)} |${row.join("")}`;
  });
  const axis = `        +${"-".repeat(width)}\n         0${`step ${last}`.padStart(width - 1)}`;
  const legend = curves.map(({ name }, i) => `${SYMBOLS[i % SYMBOLS.length]} ${name}`).join("    ");
  return `${body.join("\n")}\n${axis}\n         ${legend}`;
}

function interpolate(points: Curve["points"], step: number): number {
  const next = points.findIndex((point) => point.step >= step);
  const [a, b] = [points[Math.max(0, next - 1)], points[next === -1 ? points.length - 1 : next]];
  if (!a || !b) return Number.NaN;
  return b.step === a.step ? b.value : a.value + ((b.value - a.value) * (step - a.step)) / (b.step - a.step);
}

/** A standalone SVG file. */
export function svgPlot(title: string, curves: readonly Curve[]): string {
  const [width, height, left, top, right, bottom] = [720, 420, 56, 48, 24, 48];
  const last = Math.max(1, ...curves.flatMap(({ points }) => points.map(({ step }) => step)));
  const x = (step: number) => left + ((width - left - right) * step) / last;
  const y = (value: number) => height - bottom - (height - top - bottom) * value;
  const rows = [0, 0.25, 0.5, 0.75, 1].map(
    (value) =>
      `<line x1="${left}" x2="${width - right}" y1="${y(value)}" y2="${y(value)}" stroke="#e5e7eb"/>` +
      `<text x="${left - 8}" y="${y(value) + 4}" text-anchor="end">${value}</text>`,
  );
  const steps = curves[0]?.points.map(({ step }) => step) ?? [];
  const columns = steps.map(
    (step) => `<text x="${x(step)}" y="${height - bottom + 20}" text-anchor="middle">${step}</text>`,
  );
  const lines = curves.map(({ name, points }, i) => {
    const colour = COLOURS[i % COLOURS.length];
    const path = points.map(({ step, value }) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const dots = points.map(
      ({ step, value }) =>
        `<circle cx="${x(step).toFixed(1)}" cy="${y(value).toFixed(1)}" r="3" fill="${colour}"/>`,
    );
    const label = `<text x="${left + 12}" y="${top + 16 + 18 * i}" fill="${colour}" font-weight="600">${escapeXml(name)}</text>`;
    return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join("")}${label}`;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12"><title>${escapeXml(title)}</title>` +
    `<rect width="100%" height="100%" fill="white"/><text x="${left}" y="28" font-size="16" font-weight="600">${escapeXml(title)}</text>` +
    `${rows.join("")}${columns.join("")}<text x="${width / 2}" y="${height - 8}" text-anchor="middle">training step</text>${lines.join("")}</svg>\n`
  );
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

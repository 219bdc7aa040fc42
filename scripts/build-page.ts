/**
 * Bundles the dashboard's page for the browser: one script, one style sheet, one HTML file, and the licence of the chart
 * library that is in it.
 *
 * Run by `npm run build:ts`; `npx tsx scripts/build-page.ts` does it alone.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { build } from "vite";

const root = resolve(import.meta.dirname, "..");
const source = join(root, "lib/dashboard/page");

/** Later ones win over earlier ones. */
const STYLES = [
  "base",
  "head",
  "runs",
  "charts",
  "run",
  "trajectories",
  "trajectory",
  "tokens",
  "forms",
  "narrow",
];
const uplot = join(dirname(createRequire(import.meta.url).resolve("uplot/package.json")));

/** Makes the page and writes it to a folder. */
export async function buildPage(target: string): Promise<void> {
  const result = await build({
    configFile: false,
    logLevel: "warn",
    root: source,
    build: {
      write: false,
      target: "es2022",
      lib: {
        entry: join(source, "main.ts"),
        formats: ["iife"],
        name: "hindsearch",
        fileName: () => "page.js",
      },
    },
  });
  const [output] = [result].flat();
  const chunk = output && "output" in output ? output.output.find(({ type }) => type === "chunk") : undefined;
  if (chunk?.type !== "chunk") throw new Error("the bundler gave no script");
  const [html, chartStyle, licence, ...styles] = await Promise.all([
    readFile(join(source, "index.html"), "utf8"),
    readFile(join(uplot, "dist/uPlot.min.css"), "utf8"),
    readFile(join(uplot, "LICENSE"), "utf8"),
    ...STYLES.map((name) => readFile(join(source, "style", `${name}.css`), "utf8")),
  ]);
  const notice = `/*!\nContains uPlot.\n\n${licence.trim()}\n*/\n`;
  await mkdir(target, { recursive: true });
  const files = {
    "index.html": html,
    "page.js": `${notice}${chunk.code}`,
    "page.css": [chartStyle.trim(), ...styles].join("\n"),
    "uPlot-LICENSE.txt": licence,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(target, name), text);
}

if (process.argv[1] === import.meta.filename) await buildPage(join(root, "dist/dashboard/page"));

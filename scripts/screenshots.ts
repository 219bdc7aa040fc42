/**
 * Takes the pictures of the dashboard, in both themes and at two widths.
 *
 *     npx tsx scripts/screenshots.ts --runs runs --out docs/images
 *
 * Needs run folders (`npm run demo` makes two) and Chromium.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readPageFiles } from "../lib/dashboard/page-files.js";
import { DashboardServer } from "../lib/dashboard/server.js";
import { buildPage } from "./build-page.js";
import { findChromium, launchChromium } from "./chromium.js";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "runs" },
    out: { type: "string", default: "docs/images" },
    /** All views in all themes and widths; otherwise those that the documentation shows. */
    all: { type: "boolean", default: false },
  },
});

/** A view, and what is waited for before its picture is taken. */
interface Shot {
  name: string;
  path: (run: string) => string;
  ready: string;
  fullPage?: boolean;
  /** Whether the documentation shows it. */
  shown?: boolean;
  /** Pointed at. */
  hover?: string;
}

const list = (run: string, query: string) => `#/trajectories?run=${encodeURIComponent(run)}${query}`;
const SHOTS: Shot[] = [
  { name: "runs", path: () => "#/", ready: ".chart canvas", shown: true },
  {
    name: "run",
    path: (run) => `#/run?run=${encodeURIComponent(run)}`,
    ready: ".chart canvas",
    fullPage: true,
  },
  { name: "list", path: (run) => list(run, "&filter=failed&order=weight"), ready: ".row" },
  {
    name: "trajectory",
    path: (run) => list(run, "&filter=failed,found&order=weight"),
    ready: ".row",
    hover: ".token.weighted",
    shown: true,
  },
];

const executable = findChromium();
if (executable === undefined)
  throw new Error("Chromium is not installed; on Debian: apt-get install chromium");
const folder = await mkdtemp(join(tmpdir(), "hindsearch-page-"));
await buildPage(folder);
await mkdir(values.out, { recursive: true });
const server = new DashboardServer([values.runs], { port: 0 }, await readPageFiles(folder));
await server.listen();
const browser = await launchChromium(executable);
try {
  const runs = (await (await fetch(`${server.url}/api/runs`)).json()) as {
    runs: { id: string; method: string }[];
  };
  const run = runs.runs.filter(({ method }) => method === "HindSearch").at(-1) ?? runs.runs.at(-1);
  if (run === undefined) throw new Error(`There is no run in ${values.runs}`);
  const shots = SHOTS.filter(({ shown }) => values.all || shown);
  const widths = values.all ? [1280, 390] : [1280];
  for (const width of widths) {
    for (const colorScheme of ["light", "dark"] as const) {
      const context = await browser.newContext({
        viewport: { width, height: width > 500 ? 860 : 844 },
        colorScheme,
      });
      for (const { name, path, ready, fullPage = false, hover } of shots) {
        const page = await context.newPage();
        page.on("console", (message) => {
          if (message.type() === "error") console.error(`${name}: ${message.text()}`);
        });
        page.on("pageerror", (error) => console.error(`${name}: ${error.message}`));
        await page.goto(`${server.url}/${path(run.id)}`);
        await page.locator(ready).first().waitFor();
        await page.locator(".list-status", { hasText: "reading" }).waitFor({ state: "detached" });
        if (hover !== undefined) {
          await page.locator(".row").first().click();
          await page.locator(".trajectory").waitFor();
          const tokens = page.locator(hover);
          const weights = await tokens.evaluateAll((all) =>
            all.map((token) => Number(token.getAttribute("data-weight"))),
          );
          await tokens.nth(weights.indexOf(Math.max(...weights))).hover();
        }
        await page.waitForTimeout(300);
        await page.screenshot({ path: join(values.out, `${name}-${width}-${colorScheme}.png`), fullPage });
        await page.close();
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  await server.close();
  await rm(folder, { recursive: true });
}

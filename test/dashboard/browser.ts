import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll } from "vitest";
import { type PageFiles, readPageFiles } from "../../lib/dashboard/page-files.js";
import { DashboardServer } from "../../lib/dashboard/server.js";
import { buildPage } from "../../scripts/build-page.js";
import { findChromium, launchChromium } from "../../scripts/chromium.js";
import { scratchFolder } from "../support/scratch-folder.js";

/** Where Chromium is; tests that need it are skipped, with a message, where it is not. */
export const CHROMIUM = findChromium();
if (CHROMIUM === undefined) {
  console.warn(
    "Chromium is not installed (Debian: apt-get install chromium): tests of the page are skipped.",
  );
}

/** A page that is open, and what it complained of. */
export interface OpenPage {
  page: Page;
  /** Errors of its console and of its scripts, and requests that the policy or the network refused. */
  complaints: string[];
  /** Addresses of everything that it asked for. */
  requests: string[];
}

/** The page as it stands in `lib`, a browser, and a folder, while the tests of the calling file run. */
export function dashboardBrowser() {
  const scratch = scratchFolder();
  let browser: Browser | undefined;
  let files: PageFiles | undefined;
  const servers: DashboardServer[] = [];

  beforeAll(async () => {
    if (CHROMIUM === undefined) return;
    await buildPage(scratch("page"));
    files = await readPageFiles(scratch("page"));
    browser = await launchChromium(CHROMIUM);
  });
  afterEach(async () => {
    for (const context of browser?.contexts() ?? []) await context.close();
    for (const server of servers.splice(0)) await server.close();
  });
  afterAll(() => browser?.close());

  return {
    scratch,
    files: () => files as PageFiles,
    /** Serves folders with runs. */
    async serve(...folders: string[]): Promise<DashboardServer> {
      const server = new DashboardServer(folders, { port: 0 }, files as PageFiles);
      servers.push(server);
      await server.listen();
      return server;
    },
    /** Opens an address in a window of its own. */
    async open(address: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
      const context = await (browser as Browser).newContext({
        viewport: { width: 1280, height: 860 },
        ...options,
      });
      const page = await context.newPage();
      const complaints: string[] = [];
      const requests: string[] = [];
      page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
      });
      page.on("pageerror", (error) => complaints.push(error.message));
      page.on("dialog", (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on("request", (request) => requests.push(request.url()));
      await page.goto(address);
      return { page, complaints, requests };
    },
  };
}

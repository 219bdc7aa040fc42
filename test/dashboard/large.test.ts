import { open as openFile } from "node:fs/promises";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { parseRowQuery } from "../../lib/dashboard/row-query.js";
import { TrajectoryIndex } from "../../lib/dashboard/trajectory-index.js";
import { CHROMIUM, dashboardBrowser } from "./browser.js";
import { recordOf, stepOf, writeRun } from "./run-files.js";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
const { scratch, serve, open } = dashboardBrowser();

const COUNT = 50_000;
const GROUP = 5;
/** As long as passages are: a line has 4 KiB. */
const PASSAGE = "It was written down in the year of the tide, and read by few. ".repeat(45);

beforeAll(async () => {
  const folder = await writeRun(scratch("large"), [stepOf(0)], []);
  const record = recordOf("0-0-0") as { searches: { passages: { text: string }[] }[] };
  for (const { passages } of record.searches) for (const passage of passages) passage.text += PASSAGE;
  // Only what differs is written anew: 200 MB of JSON take their time.
  const text = JSON.stringify(record);
  const file = await openFile(join(folder, "trajectories.jsonl"), "w");
  for (let i = 0; i < COUNT; i += GROUP) {
    const [step, group] = [Math.floor(i / 500), Math.floor(i / GROUP) % 100];
    const part = Array.from({ length: GROUP }, (_, sample) =>
      text
        .replace(
          '"id":"0-0-0","step":0,"group":0,"sample":0',
          `"id":"${step}-${group}-${sample}","step":${step},"group":${group},"sample":${sample}`,
        )
        .replace('"reward":0', `"reward":${i % 3 === 0 && sample === 1 ? 1 : 0}`),
    );
    await file.appendFile(`${part.join("\n")}\n`);
  }
  await file.close();
});

test("50,000 trajectories: the index is small, quick and leaves the event loop its turns", async () => {
  const index = new TrajectoryIndex(scratch("large/trajectories.jsonl"), 0.5);
  const before = process.memoryUsage();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const start = performance.now();
  await index.update();
  const seconds = (performance.now() - start) / 1000;
  delay.disable();
  expect([index.total, index.unreadable]).toEqual([COUNT, 0]);
  const after = process.memoryUsage();
  const grown = (after.heapUsed + after.external - before.heapUsed - before.external) / 2 ** 20;
  const asked = performance.now();
  const queries = ["", "filter=failed,all-fail&order=searches", "text=book 7&order=last", "order=advantage"];
  for (const query of queries) index.page(parseRowQuery(new URLSearchParams(query)), 25_000, 100);
  const each = (performance.now() - asked) / queries.length;
  console.info(
    `50,000 trajectories, ${seconds.toFixed(1)} s, ${grown.toFixed(0)} MiB, longest turn ${(delay.max / 1e6).toFixed(0)} ms, ${each.toFixed(0)} ms a query`,
  );
  // The file has 200 MB. Limits bear a machine that does other things.
  expect(seconds).toBeLessThan(60);
  expect(grown).toBeLessThan(150);
  expect(delay.max / 1e6).toBeLessThan(500);
  expect(each).toBeLessThan(500);
});

describe.skipIf(CHROMIUM === undefined)("50,000 trajectories in the browser", () => {
  test("are scrolled, jumped through and filtered with a few rows in the document", async () => {
    const { url } = await serve(scratch("large"));
    const { page, complaints } = await open(`${url}/#/trajectories?run=large`);
    const status = page.locator(".list-status");
    await expect.poll(() => status.textContent(), { timeout: 60_000 }).toBe("50,000 trajectories");
    const list = page.locator(".virtual-list");
    // A frame that takes long is one in which the page hangs.
    await page.evaluate(`{
      window.slowest = 0;
      let last = performance.now();
      const frame = (now) => { window.slowest = Math.max(window.slowest, now - last); last = now; requestAnimationFrame(frame); };
      requestAnimationFrame(frame);
    }`);
    const start = performance.now();
    for (const share of [0.1, 0.5, 0.9, 0.3, 1]) {
      const place = Math.min(COUNT - 1, Math.round(COUNT * share));
      const row = page.locator(`#row-${share === 1 ? COUNT - 1 : place + 3}`);
      // Again until it is there: the list may still be growing when the status has the last count already.
      const jump = async () => {
        await page.evaluate(
          `{ const list = document.querySelector(".virtual-list"); list.scrollTop = list.scrollHeight * ${share}; }`,
        );
        return row.count();
      };
      await expect.poll(jump, { timeout: 30_000 }).toBe(1);
      expect(await page.locator(".row").count()).toBeLessThan(60);
    }
    const jumps = (performance.now() - start) / 5;
    expect(await page.locator(`#row-${COUNT - 1} .row-id`).textContent()).toBe("99-99-4");
    for (let i = 0; i < 40; i++)
      await page.evaluate(`document.querySelector(".virtual-list").scrollBy(0, -300)`);
    const slowest = (await page.evaluate("window.slowest")) as number;
    await list.focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("End");
    await expect.poll(() => page.locator(".permalink").textContent()).toBe("99-99-4");
    await page.locator(".chip", { hasText: "Correct" }).click();
    await expect.poll(() => status.textContent()).toBe("3,334 of 50,000 trajectories");
    console.info(`a jump takes ${jumps.toFixed(0)} ms, the slowest frame ${slowest.toFixed(0)} ms`);
    expect(jumps).toBeLessThan(3_000);
    expect(slowest).toBeLessThan(1_000);
    expect(complaints).toEqual([]);
  });
});

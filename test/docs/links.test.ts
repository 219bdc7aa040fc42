import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "./blocks.js";

const FOLDERS = ["", "docs", "examples", "bench"];
const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name)),
);

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(path: string): string[] {
  const text = readFileSync(path, "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** Where the links of a page lead; code is none. */
function targetsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) =>
    /^[a-z]+:/.test(target) ? [] : [target],
  );
}

test.each(files)("%s links to files and headings that exist", (file) => {
  const broken = targetsOf(file).filter((target) => {
    const [path = "", anchor] = target.split("#");
    const full = path === "" ? join(ROOT, file) : join(ROOT, dirname(file), path);
    if (!existsSync(full)) return true;
    return anchor !== undefined && full.endsWith(".md") && !anchors(full).includes(anchor);
  });
  expect(broken.map((target) => `${relative(ROOT, file)}: ${target}`)).toEqual([]);
});

test("what a page of the package links to is in the package, but for the benchmarks", () => {
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ files: inside }] = JSON.parse(packed) as [{ files: { path: string }[] }];
  const paths = new Set(inside.map(({ path }) => path));
  const pages = [...paths].filter((path) => path.endsWith(".md"));
  expect(pages).toEqual(
    expect.arrayContaining(["README.md", "docs/quickstart.md", "docs/troubleshooting.md"]),
  );
  const dead = pages.flatMap((page) =>
    targetsOf(page)
      .map((target) => join(dirname(page), target.split("#")[0] || basename(page)))
      .filter((path) => !paths.has(path)),
  );
  expect([...new Set(dead)]).toEqual(["bench/README.md"]);
});

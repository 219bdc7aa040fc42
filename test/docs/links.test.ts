import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
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

test.each(files)("%s links to files and headings that exist", (file) => {
  const text = readFileSync(join(ROOT, file), "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  const broken = targets.filter((target) => {
    if (/^[a-z]+:/.test(target)) return false;
    const [path = "", anchor] = target.split("#");
    const full = path === "" ? join(ROOT, file) : join(ROOT, dirname(file), path);
    if (!existsSync(full)) return true;
    return anchor !== undefined && full.endsWith(".md") && !anchors(full).includes(anchor);
  });
  expect(broken.map((target) => `${relative(ROOT, file)}: ${target}`)).toEqual([]);
});

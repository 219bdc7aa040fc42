import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { licencesMarkdown, PERMISSIVE, shippedLicences } from "../scripts/licences.js";

test("docs/licences.md lists what the lock file says", () => {
  const page = readFileSync(resolve(import.meta.dirname, "../docs/licences.md"), "utf8");
  expect(page).toBe(licencesMarkdown());
});

test("what cannot be left out has a permissive licence", () => {
  const { always } = shippedLicences();
  expect(always.get("MIT")).toContain("zod");
  expect([...always.keys()].filter((licence) => !PERMISSIVE.includes(licence))).toEqual([]);
});

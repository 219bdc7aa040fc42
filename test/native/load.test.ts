import { expect, test } from "vitest";
import { loadAddon } from "../../lib/native/load.js";
import packageJson from "../../package.json" with { type: "json" };

test("the addon loads and is of this version", () => {
  expect(loadAddon().version).toBe(packageJson.version);
});

test("the addon is loaded once", () => {
  expect(loadAddon()).toBe(loadAddon());
});

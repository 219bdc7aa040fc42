import { expect, test } from "vitest";
import { HindsearchErrorCode } from "../../lib/errors.js";
import { pageText } from "./blocks.js";

test("the page on troubleshooting has every error code, in their order, and no other", () => {
  const [, codes = ""] = pageText("docs/troubleshooting.md").split(/^## /m);
  const rows = [...codes.matchAll(/^\| `([A-Z_]+)` \| (.+) \| (.+) \|$/gm)];
  expect(rows.map(([, code]) => code)).toEqual(Object.keys(HindsearchErrorCode));
});

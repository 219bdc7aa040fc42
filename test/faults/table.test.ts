import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { TABLES, tableIn } from "./table.js";

test.each(Object.entries(TABLES))("docs/faults.md shows what is tested: %s", async (name, table) => {
  const document = await readFile(resolve(import.meta.dirname, "../../docs/faults.md"), "utf8");
  const expected = table();
  expect(tableIn(document, name), `The table "${name}" of docs/faults.md should be:\n\n${expected}\n`).toBe(
    expected,
  );
});

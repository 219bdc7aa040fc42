import { resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import type { Addon } from "../../lib/native/addon.js";
import { loadAddon } from "../../lib/native/load.js";
import { tinyConfig, tinyModel } from "../support/tiny-model.js";

/** Names of the members of an interface in a file of lib/native. */
function declared(name: string, fileName: string): string[] {
  const file = resolve(import.meta.dirname, "../../lib/native", fileName);
  const source = ts.createSourceFile(file, ts.sys.readFile(file) ?? "", ts.ScriptTarget.ES2022);
  const declaration = source.statements.find(
    (node) => ts.isInterfaceDeclaration(node) && node.name.text === name,
  );
  if (declaration === undefined || !ts.isInterfaceDeclaration(declaration))
    throw new Error(`no interface ${name}`);
  return declaration.members.map((member) => (member.name as ts.Identifier).text).sort();
}

const exported = (object: object) =>
  Object.getOwnPropertyNames(object)
    .filter((name) => name !== "constructor")
    .sort();

function decoder(addon: Addon, model: Awaited<ReturnType<typeof tinyModel>>) {
  return addon.createDecoder(
    model,
    { cacheTokens: 256, maxBatch: 4, prefillTokens: 64 },
    {
      bytes: new Uint8Array(tinyConfig.tokenLimit).fill(65),
      offsets: Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id),
    },
  );
}

test("the interfaces written by hand name what the addon exports, no more and no less", async () => {
  const addon = loadAddon();
  const model = await tinyModel(addon);
  expect(exported(addon)).toEqual(declared("Addon", "addon.ts"));
  expect(Object.keys({ ...addon }).sort(), "a copy of the addon").toEqual(declared("Addon", "addon.ts"));
  expect(exported(Object.getPrototypeOf(model))).toEqual(declared("NativeModel", "model.ts"));
  expect(exported(Object.getPrototypeOf(addon.createCancellation()))).toEqual(
    declared("Cancellation", "cancellation.ts"),
  );
  expect(exported(Object.getPrototypeOf(await decoder(addon, model)))).toEqual(
    declared("NativeDecoder", "decoder.ts"),
  );
});

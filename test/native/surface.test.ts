import { resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import type { Addon } from "../../lib/native/addon.js";
import { loadAddon } from "../../lib/native/load.js";
import { tinyConfig, tinyModel } from "../support/tiny-model.js";

/** Names of the members of an interface in lib/native/addon.ts. */
function declared(name: string): string[] {
  const file = resolve(import.meta.dirname, "../../lib/native/addon.ts");
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
  expect(exported(addon)).toEqual(declared("Addon"));
  expect(exported(Object.getPrototypeOf(model))).toEqual(declared("NativeModel"));
  expect(exported(Object.getPrototypeOf(await decoder(addon, model)))).toEqual(declared("NativeDecoder"));
});

test("wrong arguments of every kind are errors, never a crash", async () => {
  const addon = loadAddon();
  const model = await tinyModel(addon);
  const decoding = await decoder(addon, model);
  const gone = new Int32Array(4);
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  const throwing = new Proxy({}, { get: () => expect.unreachable("a getter of the caller throws") });
  const wrong: unknown[] = [
    ...[
      undefined,
      null,
      true,
      -1,
      0.5,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      2 ** 53,
      "text",
      1n,
      -(2n ** 70n),
    ],
    ...[
      Symbol("s"),
      {},
      [],
      [undefined],
      new Float32Array(3),
      new Int32Array(0),
      new Int32Array([-1, 5]),
      gone,
    ],
    ...[throwing, () => 0, model, decoding, addon.createCancellation()],
    { tokens: gone, offsets: gone },
    { tokens: new Int32Array([1, 2]), offsets: new Int32Array([0, 99]) },
    { tokens: new Int32Array([1, 2]), offsets: new Int32Array([2, 0]) },
    { tokens: new Int32Array([999]), offsets: new Int32Array([0, 1]) },
  ];
  const targets = [
    { kind: "addon", methods: addon, receivers: [addon] },
    { kind: "model", methods: Object.getPrototypeOf(model), receivers: [model, decoding, {}, undefined] },
    {
      kind: "decoder",
      methods: Object.getPrototypeOf(decoding),
      receivers: [decoding, model, {}, undefined],
    },
  ];
  const accepted = new Set<string>();
  for (const { kind, methods, receivers } of targets) {
    for (const name of exported(methods)) {
      const method = Object.getOwnPropertyDescriptor(methods, name)?.value;
      if (typeof method !== "function" || name === "dispose") continue;
      for (const receiver of receivers) {
        for (const first of wrong) {
          for (const second of [undefined, first]) {
            try {
              await Reflect.apply(method, receiver, [first, second, second, second]);
              accepted.add(`${kind}.${name}`);
            } catch (error) {
              expect(error, `${kind}.${name}`).toBeInstanceOf(Error);
            }
          }
        }
      }
    }
  }
  // These take no argument and ignore what they are given; whatever takes one must have refused all of the above.
  expect([...accepted].sort()).toEqual([
    ...["addon.createCancellation", "addon.threads", "decoder.next", "decoder.stats"],
    ...["model.gradientNorm", "model.snapshot", "model.zeroGradients"],
  ]);
});

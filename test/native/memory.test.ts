import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

const manyModels = (body: string) => `${tinyModelScript}
  const wide = { hidden: 256, vocabulary: 16384, tokenLimit: 16384, tied: false };
  const count = 16;
  let bytes = 0;
  for (let index = 0; index < count; index++) {
    const model = await tinyModel(wide);
    bytes += model.bytes;
    ${body}
    await new Promise((done) => setImmediate(done));
  }
  const peak = process.resourceUsage().maxRSS * 1024;
  console.log(JSON.stringify({ allocated: bytes / 2 ** 20, peak: peak / 2 ** 20 }));
`;

test("forgotten models are collected: V8 knows their weight", async () => {
  const result = await built.run(manyModels(""));
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const { allocated, peak } = JSON.parse(result.stdout);
  expect(allocated).toBeGreaterThan(700);
  expect(peak).toBeLessThan(allocated / 2);
});

test("dispose frees at once", async () => {
  const result = await built.run(manyModels("model.dispose();"));
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const { allocated, peak } = JSON.parse(result.stdout);
  expect(allocated).toBeGreaterThan(700);
  expect(peak).toBeLessThan(300);
});

test("what cannot be allocated is an error, not the end of the process", async () => {
  const result = await built.run(`${tinyModelScript}
    const codes = [];
    const attempt = async (body) => {
      try { await body(); codes.push("no error"); } catch (error) { codes.push(error.code); }
    };
    const addon = loadAddon();
    // Petabytes: more than any address space, so that the allocation itself fails.
    await attempt(() => tinyModel({ vocabulary: 2 ** 31 - 1, hidden: 2 ** 20 }));
    const model = await tinyModel();
    const texts = { bytes: new Uint8Array(tinyConfig.tokenLimit), offsets: Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id) };
    await attempt(() => addon.createDecoder(model, { cacheTokens: 2 ** 40, maxBatch: 8, prefillTokens: 64 }, texts));
    console.log(codes.join());
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  for (const code of result.stdout.trim().split(","))
    expect(["OUT_OF_MEMORY", "INVALID_ARGUMENT"]).toContain(code);
});

import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { tinyModelScript } from "../support/tiny-model.js";

const built = builtPackage();

const manyModels = (after: string) => `${tinyModelScript}
  const wide = { hidden: 256, vocabulary: 16384, tokenLimit: 16384, tied: false };
  const count = 16;
  let bytes = 0;
  for (let index = 0; index < count; index++) {
    const model = await tinyModel(wide);
    bytes += model.bytes;
    ${after}
  }
  const peak = process.resourceUsage().maxRSS * 1024;
  console.log(JSON.stringify({ allocated: bytes / 2 ** 20, peak: peak / 2 ** 20 }));
`;

test("forgotten models are collected: V8 knows their weight", async () => {
  const result = await built.run(manyModels("await new Promise((done) => setImmediate(done));"));
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const { allocated, peak } = JSON.parse(result.stdout);
  expect(allocated).toBeGreaterThan(700);
  expect(peak).toBeLessThan(allocated / 2);
});

test("dispose frees at once, in a loop that never rests", async () => {
  const result = await built.run(manyModels("model.dispose();"));
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const { allocated, peak } = JSON.parse(result.stdout);
  expect(allocated).toBeGreaterThan(700);
  expect(peak).toBeLessThan(300);
});

/** Calls that pass every check of their arguments and need more than a process of 2 GiB can map. */
const tooLarge = `${tinyModelScript}
  const addon = loadAddon();
  const codes = {};
  const attempt = async (name, body) => {
    try { await body(); codes[name] = "no error"; } catch (error) { codes[name] = error.code; }
  };
  const offsets = Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id);
  const texts = { bytes: new Uint8Array(tinyConfig.tokenLimit), offsets };
  const sizes = { cacheTokens: 8192, maxBatch: 8, prefillTokens: 64 };
  const scoring = { temperature: 1, first: Int32Array.of(1), entropy: false, microBatchTokens: 4096 };
  const model = await tinyModel();
  const before = (await model.score(packed(1, 50), scoring)).logProbs;
  const decoder = await addon.createDecoder(model, sizes, texts);
  // 4 GiB of embedding, 8 GiB of cache.
  await attempt("initialize", () => tinyModel({ vocabulary: 2 ** 20, tokenLimit: 2 ** 20, hidden: 2 ** 10 }));
  await attempt("createDecoder", () => addon.createDecoder(model, { ...sizes, cacheTokens: 2 ** 24 }, texts));
  // These fail on the JavaScript thread, in the copy of an array that is half as large as what is left.
  const floats = new Float32Array(3 * 2 ** 26);
  await attempt("filterProbabilities", () =>
    addon.filterProbabilities(floats, { temperature: 1, topK: 0, topP: 1, minP: 0 }));
  const tokens = new Int32Array(floats.buffer);
  const segment = { sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 }, stops: [], endTokens: [], maxNewTokens: 1 };
  await attempt("submit", () => decoder.submit(tokens, segment, { seed: 1n, stream: 1n }, 0));
  await attempt("score", () => model.score({ tokens, offsets: Int32Array.of(0, tokens.length) }, scoring));
  const after = (await model.score(packed(1, 50), scoring)).logProbs;
  console.log(JSON.stringify({ codes, same: Buffer.from(after.buffer).equals(Buffer.from(before.buffer)) }));
`;

test.runIf(process.platform === "linux")(
  "what cannot be allocated is OUT_OF_MEMORY, in a promise and in a call that returns at once; the engine works on",
  async () => {
    const result = await built.run(tooLarge, "mjs", {}, 2 * 2 ** 30);
    expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
    const none = "OUT_OF_MEMORY";
    expect(JSON.parse(result.stdout)).toEqual({
      codes: { initialize: none, createDecoder: none, filterProbabilities: none, submit: none, score: none },
      same: true,
    });
  },
);

import { afterAll, beforeAll, expect, test } from "vitest";
import type { NativeDecoder, NativeSegmentOptions } from "../../lib/native/decoder.js";
import { loadAddon } from "../../lib/native/load.js";
import { tinyConfig, tinyModel } from "../support/tiny-model.js";

const prompt = Int32Array.of(1, 2, 3);
const key = { seed: 1n, stream: 1n };
const segment = (maxNewTokens: number): NativeSegmentOptions => ({
  sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
  stops: [],
  endTokens: [],
  maxNewTokens,
});

let decoder: NativeDecoder;

beforeAll(async () => {
  const addon = loadAddon();
  const noBytes = { bytes: new Uint8Array(), offsets: new Uint32Array(tinyConfig.tokenLimit + 1) };
  const options = { cacheTokens: 8192, maxBatch: 4, prefillTokens: 64 };
  decoder = await addon.createDecoder(await tinyModel(addon), options, noBytes);
});

afterAll(() => decoder.dispose());

/** Holds the event loop up, so that what the engine has to say stays on its way. */
function blockUntil(condition: () => boolean): void {
  const deadline = Date.now() + 20_000;
  while (!condition()) if (Date.now() > deadline) throw new Error("it does not come true");
}

test("a call of next() whose results are released on their way hears of its abort", async () => {
  const short = decoder.submit(prompt, segment(1), key, 0);
  const long = decoder.submit(prompt, segment(4000), key, 0);
  const cancellation = loadAddon().createCancellation();
  const pending = decoder.next(cancellation);
  blockUntil(() => decoder.stats().waiting === 1);
  decoder.release(short);
  cancellation.cancel();
  await expect(pending).rejects.toMatchObject({ code: "ABORTED" });
  decoder.release(long);
});

test("results of a sequence that is released are not reported", async () => {
  const first = decoder.submit(prompt, segment(3), key, 0);
  blockUntil(() => decoder.stats().waiting === 1);
  decoder.release(first);
  const second = decoder.submit(prompt, segment(3), key, 0);
  expect((await decoder.next()).map(({ sequence }) => sequence)).toEqual([second]);
  decoder.release(second);
  expect(await decoder.next()).toEqual([]);
});

test("nothing that ends while the event loop is held up is lost, and nothing comes twice", async () => {
  const submitted = Array.from({ length: 60 }, (_, stream) =>
    decoder.submit(prompt, segment(2), { seed: 1n, stream: BigInt(stream) }, 0),
  );
  const first = decoder.next();
  blockUntil(() => decoder.stats().waiting === submitted.length);
  const collected = await first;
  while (collected.length < submitted.length) {
    const more = await decoder.next();
    expect(more.length).toBeGreaterThan(0);
    collected.push(...more);
  }
  expect(collected.map(({ sequence }) => sequence).sort((a, b) => a - b)).toEqual(submitted);
  expect(collected.every(({ tokens }) => tokens.length === 2)).toBe(true);
  for (const sequence of submitted) decoder.release(sequence);
  expect(await decoder.next()).toEqual([]);
});

test("elements behind one that is refused are not read", () => {
  let read = false;
  const stops: unknown[] = [7];
  Object.defineProperty(stops, 1, {
    get() {
      read = true;
      return "x";
    },
  });
  const options = { ...segment(1), stops: stops as string[] };
  expect(() => decoder.submit(prompt, options, key, 0)).toThrow("options.stops[0] must be a string, not 7.");
  expect(read).toBe(false);
});

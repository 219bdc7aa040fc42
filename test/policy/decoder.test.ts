import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import type { Decoder, Segment } from "../../lib/policy/decoder.js";
import type { Policy } from "../../lib/policy/policy.js";
import { randomTokens, smallPolicy } from "../support/small-policy.js";
import { byteLevelTokenizer } from "../support/small-tokenizers.js";

let policy: Policy;
let decoder: Decoder;
beforeAll(async () => {
  policy = await smallPolicy();
  return () => policy.dispose();
});
beforeEach(async () => {
  decoder = await policy.createDecoder({ cacheTokens: 512, maxBatch: 4 });
});
afterEach(() => decoder.dispose());

/** Keeps the engine busy, so that what is called meanwhile queues. */
let occupied: Promise<unknown> = Promise.resolve();
function occupy(): void {
  const sequences = Array.from({ length: 40 }, (_, index) => ({ tokens: randomTokens(500, index) }));
  occupied = policy.score(sequences, { entropy: true });
}
afterEach(() => occupied);

const prompt = randomTokens(5, 1);
const free = { endTokens: [], maxNewTokens: 8 };

/** Collects until nothing goes on without the caller. */
async function collect(): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (;;) {
    const finished = await decoder.next();
    if (finished.length === 0) return segments;
    segments.push(...finished);
  }
}

describe("a sequence", () => {
  test("reports what it wrote, and why it stopped", async () => {
    const sequence = decoder.submit(prompt, free);
    expect(await decoder.next()).toEqual([
      {
        sequence,
        reason: "length",
        tokens: expect.objectContaining({ length: 8 }),
        logProbs: expect.objectContaining({ length: 8 }),
        stopIndex: -1,
        overhang: 0,
        firstVersion: policy.version,
        lastVersion: policy.version,
      },
    ]);
    expect(await decoder.next()).toEqual([]);
  });

  test("ends with the first end token, which it keeps", async () => {
    decoder.submit(prompt, { ...free, maxNewTokens: 20 });
    const [whole] = await collect();
    const tokens = Array.from(whole?.tokens ?? []);
    const end = tokens[10] as number;
    decoder.submit(prompt, { maxNewTokens: 20, endTokens: [end], seed: 0, stream: 0 });
    const [cut] = await collect();
    expect(cut?.reason).toBe("endToken");
    expect(Array.from(cut?.tokens ?? [])).toEqual(tokens.slice(0, tokens.indexOf(end) + 1));
  });

  test("draws from a stream of its own unless told otherwise", async () => {
    const numbers = [decoder.submit(prompt, free), decoder.submit(prompt, free)];
    numbers.push(decoder.submit(prompt, { ...free, seed: 0n, stream: 1n }));
    numbers.push(decoder.submit(prompt, { ...free, seed: 2n ** 64n - 1n, stream: 1n }));
    const written = new Map((await collect()).map(({ sequence, tokens }) => [sequence, tokens.join()]));
    const [first, second, same, other] = numbers.map((number) => written.get(number));
    expect(same).toBe(second);
    expect(new Set([first, second, other]).size).toBe(3);
  });

  test("that is cancelled keeps what it wrote; one that waits is left alone", async () => {
    occupy();
    const sequence = decoder.submit(prompt, { ...free, maxNewTokens: 400 });
    decoder.cancel(sequence);
    const [segment] = await collect();
    expect(segment?.reason).toBe("cancelled");
    expect(segment?.tokens.length).toBeLessThan(400);
    decoder.cancel(sequence);
    expect(await decoder.next()).toEqual([]);
    decoder.extend(sequence, [], { ...free, maxNewTokens: 1 });
    expect((await collect())[0]?.reason).toBe("length");
  });

  test("that is released is not heard of again, also if it was writing", async () => {
    occupy();
    const [kept, dropped] = [decoder.submit(prompt, free), decoder.submit(prompt, free)];
    decoder.release(dropped);
    expect((await collect()).map(({ sequence }) => sequence)).toEqual([kept]);
    decoder.release(kept);
    expect(await decoder.next()).toEqual([]);
    await expect.poll(() => decoder.stats().pagesUsed).toBe(0);
    for (const call of [
      () => decoder.release(kept),
      () => decoder.cancel(dropped),
      () => decoder.extend(kept, []),
    ])
      expect(call).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  test("that waits does not hold up the others, nor next()", async () => {
    const waiting = decoder.submit(prompt, { ...free, reserve: 40 });
    await collect();
    const others = Array.from({ length: 6 }, () => decoder.submit(prompt, free));
    expect((await collect()).map(({ sequence }) => sequence).sort()).toEqual(others.sort());
    decoder.extend(waiting, randomTokens(3, 2), free);
    expect((await collect())[0]?.sequence).toBe(waiting);
  });

  test("queues behind the pages of those that wait; next() says so instead of hanging", async () => {
    const first = decoder.submit(prompt, { ...free, reserve: 512 });
    await collect();
    const second = decoder.submit(prompt, free);
    expect(await decoder.next()).toEqual([]);
    expect(decoder.stats()).toMatchObject({ queued: 1, waiting: 1, running: 0 });
    decoder.release(first);
    expect((await collect()).map(({ sequence }) => sequence)).toEqual([second]);
  });
});

describe("after an optimizer step", () => {
  test("a sequence goes on with the new weights, as if they had always been there", async () => {
    using trained = await smallPolicy();
    using running = await trained.createDecoder();
    const sequence = running.submit(prompt, { ...free, reserve: 64 });
    const [before] = await running.next();
    const weights = Array.from(prompt, (_, index) => Math.sign(index));
    await trained.forwardBackward([{ tokens: prompt, weights }], { crossEntropy: {} });
    await trained.step({ learningRate: 0.1 });
    running.extend(sequence, [], free);
    const [after] = await running.next();
    expect(after).toMatchObject({ firstVersion: trained.version, lastVersion: trained.version });
    expect(before?.lastVersion).toBeLessThan(trained.version);
    const tokens = [...prompt, ...(before?.tokens ?? []), ...(after?.tokens ?? [])];
    const [score] = await trained.score([{ tokens, first: tokens.length - 8 }]);
    expect(score?.logProbs.slice(-8)).toEqual(after?.logProbs);
  });
});

describe("stop strings", () => {
  test("the token that completes one is kept whole; overhang counts the bytes behind", async () => {
    // The merges make tokens of several letters: "the" and " the" among them.
    using speaker = await smallPolicy("qwen2", { tokenizer: { json: byteLevelTokenizer() } }, 300);
    const texts = await speaker.generate(
      Array.from({ length: 30 }, (_, index) => [index]),
      { temperature: 3, maxNewTokens: 60, stop: ["t", "im"], endTokens: [] },
    );
    const { bytes, offsets } = speaker.tokenizer.tokenBytes();
    const endings = new Set<string>();
    for (const { text, tokens, reason } of texts) {
      const whole = Buffer.concat(Array.from(tokens, (id) => bytes.subarray(offsets[id], offsets[id + 1])));
      expect(whole.includes("t") || whole.includes("im")).toBe(reason === "stop");
      if (reason !== "stop") continue;
      expect(text).toMatch(/(t|im)$/);
      expect(text).not.toMatch(/(t|im)./s);
      endings.add(whole.subarray(Buffer.byteLength(text)).toString());
    }
    // Of "the" and " the" two bytes lie behind the stop.
    expect([...endings].sort()).toEqual(expect.arrayContaining(["", "he"]));
  });
});

describe("wrong use", () => {
  const invalid = expect.objectContaining({ name: "HindsearchError", code: "INVALID_ARGUMENT" });

  test.for<[string, () => unknown]>([
    ["no prompt", () => decoder.submit([])],
    ["an id that is none", () => decoder.submit([1, 150])],
    ["half an id", () => decoder.submit([1, 1.5])],
    ["a negative temperature", () => decoder.submit(prompt, { temperature: -1 })],
    ["a temperature next to zero", () => decoder.submit(prompt, { temperature: 1e-38 })],
    ["a temperature that is no number", () => decoder.submit(prompt, { temperature: Number.NaN })],
    ["half a token of length", () => decoder.submit(prompt, { maxNewTokens: 1.5 })],
    ["top-p 0", () => decoder.submit(prompt, { topP: 0 })],
    ["an empty stop string", () => decoder.submit(prompt, { stop: [""] })],
    ["a stop string that is no list", () => decoder.submit(prompt, { stop: "x" as unknown as string[] })],
    ["an end token that is none", () => decoder.submit(prompt, { endTokens: [150] })],
    ["a reserve that is too small", () => decoder.submit(prompt, { ...free, reserve: 6 })],
    ["an inexact seed", () => decoder.submit(prompt, { seed: 2 ** 60 })],
    ["a negative seed", () => decoder.submit(prompt, { seed: -1 })],
    ["a seed beyond 64 bit", () => decoder.submit(prompt, { seed: 2n ** 64n })],
    ["a fork of nothing", () => decoder.fork(1, { streams: [{}] })],
  ])("%s is refused at once", async ([, call]) => {
    expect(call).toThrow(invalid);
    expect(await decoder.next()).toEqual([]);
  });

  test("what can never fit is refused at once", () => {
    const full = expect.objectContaining({ code: "CONTEXT_FULL" });
    expect(() => decoder.submit(prompt, { maxNewTokens: 508 })).toThrow(full);
    expect(() => decoder.submit(prompt, { ...free, reserve: 513 })).toThrow(full);
    expect(() => decoder.submit(randomTokens(513, 1), { maxNewTokens: 0 })).toThrow(full);
  });

  test("a text longer than the reserve is refused and changes nothing", async () => {
    const sequence = decoder.submit(prompt, free);
    await collect();
    expect(() => decoder.extend(sequence, randomTokens(100, 1))).toThrow(
      expect.objectContaining({ code: "CONTEXT_FULL" }),
    );
    decoder.extend(sequence, [], { maxNewTokens: 0 });
    expect((await collect())[0]?.reason).toBe("ready");
  });

  test("a sequence that writes cannot be extended, nor next() called twice", async () => {
    occupy();
    const sequence = decoder.submit(prompt, { ...free, maxNewTokens: 300 });
    expect(() => decoder.extend(sequence, [])).toThrow(invalid);
    const open = decoder.next();
    await expect(decoder.next()).rejects.toEqual(invalid);
    expect(await open).toHaveLength(1);
  });

  test("an abort ends the wait alone", async () => {
    occupy();
    decoder.submit(prompt, { ...free, maxNewTokens: 400 });
    const controller = new AbortController();
    const waiting = decoder.next({ signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED", cause: new Error("enough") });
    await expect(decoder.next({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "ABORTED" });
    expect((await collect())[0]?.tokens).toHaveLength(400);
  });

  test("after dispose everything is refused, and an open next() rejects", async () => {
    occupy();
    decoder.submit(prompt, { ...free, maxNewTokens: 400 });
    const waiting = decoder.next();
    decoder.dispose();
    decoder.dispose();
    const disposed = expect.objectContaining({ code: "DISPOSED" });
    await expect(waiting).rejects.toEqual(disposed);
    await expect(decoder.next()).rejects.toEqual(disposed);
    for (const call of [
      () => decoder.submit(prompt),
      () => decoder.fork(1, { streams: [{}] }),
      () => decoder.extend(1, []),
      () => decoder.cancel(1),
      () => decoder.release(1),
      () => decoder.stats(),
    ])
      expect(call).toThrow(disposed);
    expect(decoder.bytes).toBe(0);
  });

  test("a decoder outlives its policy", async () => {
    const short = await smallPolicy();
    using living = await short.createDecoder();
    short.dispose();
    await expect(short.createDecoder()).rejects.toMatchObject({ code: "DISPOSED" });
    living.submit(prompt, free);
    expect(await living.next()).toHaveLength(1);
  });
});

test("random calls: every sequence reports once per segment, and all pages come back", async () => {
  const random = new Random("decoder calls");
  using small = await policy.createDecoder({ cacheTokens: 300, maxBatch: 3, prefillTokens: 9 });
  const writing = new Set<number>();
  const waiting = new Set<number>();
  const pick = (from: Set<number>) => [...from][random.integer(from.size)] as number;
  for (let round = 0; round < 400; round++) {
    const options = { endTokens: [], maxNewTokens: random.integer(12), temperature: random.float() * 2 };
    switch (random.integer(6)) {
      case 0:
      case 1:
        writing.add(small.submit(randomTokens(1 + random.integer(30), round), { ...options, reserve: 60 }));
        break;
      case 2:
        if (waiting.size + writing.size > 0) {
          const parent = pick(new Set([...waiting, ...writing]));
          for (const fork of small.fork(parent, { ...options, streams: [{}, {}], reserve: 100 }))
            writing.add(fork);
        }
        break;
      case 3:
        if (waiting.size > 0) {
          const sequence = pick(waiting);
          try {
            small.extend(sequence, randomTokens(random.integer(9), round), options);
            waiting.delete(sequence);
            writing.add(sequence);
          } catch (error) {
            expect(error).toMatchObject({ code: "CONTEXT_FULL" });
          }
        }
        break;
      case 4: {
        const all = new Set([...waiting, ...writing]);
        if (all.size > 0) {
          const sequence = pick(all);
          if (random.integer(2) === 0) small.cancel(sequence);
          else {
            small.release(sequence);
            waiting.delete(sequence);
            writing.delete(sequence);
          }
        }
        break;
      }
      default:
        for (const { sequence, reason } of await small.next()) {
          expect(reason).not.toBe("failed");
          expect(writing.delete(sequence)).toBe(true);
          waiting.add(sequence);
        }
    }
  }
  for (;;) {
    const finished = await small.next();
    for (const { sequence } of finished) {
      expect(writing.delete(sequence)).toBe(true);
      waiting.add(sequence);
    }
    for (const sequence of waiting) small.release(sequence);
    waiting.clear();
    if (writing.size === 0) break;
  }
  await expect.poll(() => small.stats().pagesUsed).toBe(0);
  expect(small.stats()).toMatchObject({ running: 0, queued: 0, waiting: 0 });
});

test.each([
  [{ maxBatch: 0 }, /maxBatch .*from 1 to 65536, not 0/],
  [{ maxBatch: Number.NaN }, /maxBatch .*not NaN/],
  [{ maxBatch: 1.5 }, /maxBatch .*not 1\.5/],
  [{ cacheTokens: 0 }, /cacheTokens .*not 0/],
  [{ prefillTokens: 0 }, /prefillTokens .*not 0/],
])("createDecoder(%o) is refused by the name of what is wrong", async (options, message) => {
  await expect(policy.createDecoder(options)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringMatching(message),
  });
});

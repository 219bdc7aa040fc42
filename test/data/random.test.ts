import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hashKey, philox, Random, type Words } from "../../lib/data/random.js";

describe("philox", () => {
  // Known answers of the authors' reference implementation (Random123, kat_vectors).
  test.each<[[number, number], Words, Words]>([
    [
      [0, 0],
      [0, 0, 0, 0],
      [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    ],
    [
      [0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    ],
    [
      [0xa4093822, 0x299f31d0],
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ],
  ])("key %j, counter %j", (key, counter, expected) => {
    expect(philox(key, counter)).toEqual(expected);
  });
});

describe("hashKey", () => {
  test("is the documented digest", () => {
    const digest = createHash("sha256").update("i7;s4:żółw;".replace("s4", "s7")).digest();
    expect(hashKey(7, "żółw")).toBe(digest.readBigUInt64LE(0));
  });

  test("tells parts apart that read alike when joined", () => {
    const keys = [
      hashKey("a", "b"),
      hashKey("ab"),
      hashKey("a;s1:b"),
      hashKey("b", "a"),
      hashKey(1, 2),
      hashKey(12),
      hashKey("1", "2"),
      hashKey("i1;i2;"),
      hashKey(-12),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  test("takes numbers and bigints alike, and refuses what it cannot write exactly", () => {
    expect(hashKey(7)).toBe(hashKey(7n));
    for (const part of [0.5, Number.NaN, 2 ** 53]) {
      expect(() => hashKey(part)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    }
    expect(() => hashKey()).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});

describe("Random", () => {
  test("the same key gives the same numbers, another key others", () => {
    const draw = (...parts: [string, number]) => {
      const random = new Random(...parts);
      return Array.from({ length: 50 }, () => random.float());
    };
    expect(draw("x", 1)).toEqual(draw("x", 1));
    expect(draw("x", 1)).not.toEqual(draw("x", 2));
    expect(new Set(draw("x", 1)).size).toBe(50);
  });

  test("floats are uniform in [0, 1)", () => {
    const random = new Random("uniform");
    const bins = new Array<number>(20).fill(0);
    let sum = 0;
    const n = 100_000;
    for (let i = 0; i < n; i++) {
      const value = random.float();
      if (value < 0 || value >= 1) throw new Error(`out of range: ${value}`);
      sum += value;
      const bin = Math.floor(value * 20);
      bins[bin] = (bins[bin] as number) + 1;
    }
    expect(sum / n).toBeCloseTo(0.5, 2);
    const chiSquare = bins.reduce((total, count) => total + (count - n / 20) ** 2 / (n / 20), 0);
    // 19 degrees of freedom: 43.8 is the 99.9 % point.
    expect(chiSquare).toBeLessThan(43.8);
  });

  test("integer, pick and weighted stay in range and in proportion", () => {
    const random = new Random("draws");
    const integers = Array.from({ length: 3000 }, () => random.integer(3));
    expect(new Set(integers)).toEqual(new Set([0, 1, 2]));
    const drawn = [0, 0, 0, 0];
    for (let i = 0; i < 10_000; i++) {
      const index = random.weighted([0, 1, 3, 0]);
      drawn[index] = (drawn[index] as number) + 1;
    }
    expect(drawn[0]).toBe(0);
    expect(drawn[3]).toBe(0);
    expect((drawn[2] as number) / 10_000).toBeCloseTo(0.75, 1);
    expect(["a", "b"]).toContain(random.pick(["a", "b"]));
  });

  test("sample draws different places, shuffle keeps everything and its argument", () => {
    const items = Array.from({ length: 30 }, (_, i) => i);
    const sample = new Random("sample").sample(items, 10);
    expect(new Set(sample).size).toBe(10);
    const shuffled = new Random("shuffle").shuffle(items);
    expect(shuffled).not.toEqual(items);
    expect([...shuffled].sort((a, b) => a - b)).toEqual(items);
    expect(items[0]).toBe(0);
  });

  test("every place is as likely as any other", () => {
    const counts = [0, 1, 2].map(() => [0, 0, 0]);
    for (let i = 0; i < 6000; i++) {
      for (const [place, item] of new Random("places", i).shuffle([0, 1, 2]).entries()) {
        const row = counts[item] as number[];
        row[place] = (row[place] as number) + 1;
      }
    }
    for (const row of counts) for (const count of row) expect(Math.abs(count - 2000)).toBeLessThan(180);
  });

  test.each([
    ["integer", () => new Random("r").integer(0)],
    ["integer", () => new Random("r").integer(1.5)],
    ["pick", () => new Random("r").pick([])],
    ["sample", () => new Random("r").sample([1], 2)],
    ["weighted", () => new Random("r").weighted([0, 0])],
    ["weighted", () => new Random("r").weighted([1, -1])],
    ["weighted", () => new Random("r").weighted([1, Number.NaN])],
  ])("%s refuses what it cannot draw from", (_name, draw) => {
    expect(draw).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});

import { describe, expect, test } from "vitest";
import { TextWriter } from "../../lib/serving/text-writer.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";

const table = byteTokenizer().tokenBytes();

/** What comes out for every way of cutting the bytes of a text in two. */
function pieces(text: string, stops: string[], at: number) {
  const bytes = Int32Array.from(Buffer.from(text));
  const writer = new TextWriter(table, stops);
  const first = writer.write(bytes.subarray(0, at));
  const second = writer.write(bytes.subarray(at));
  return { first, all: first + second + writer.end(), stopped: writer.stopped };
}

describe("text of tokens as they come", () => {
  test.each([
    ["añ字🚀b", [], "añ字🚀b"],
    ["one STOP two", ["STOP"], "one "],
    ["one STO two", ["STOP"], "one STO two"],
    ["aab", ["ab"], "a"],
    ["x<|a y", ["<|a|>", "<|b|>"], "x<|a y"],
    ["xyz", ["yz", "xy"], ""],
  ])("%j with stops %j is %j wherever it is cut", (text, stops, expected) => {
    const length = Buffer.from(text).length;
    for (let at = 0; at <= length; at++) {
      const { all, first, stopped } = pieces(text, stops, at);
      expect(all).toBe(expected);
      expect(expected.startsWith(first)).toBe(true);
      expect(stopped).toBe(expected !== text);
    }
  });

  test("a character that is cut off at the end becomes U+FFFD", () => {
    const writer = new TextWriter(table, []);
    expect(writer.write(Int32Array.of(0x61, 0xf0, 0x9f))).toBe("a");
    expect(writer.end()).toBe("\ufffd");
  });
});

import { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import { Output } from "../../lib/cli/output.js";
import { duration, manyLines, oneLine, rate, score } from "../../lib/cli/text.js";

/** An output whose streams are read, with a terminal or without one. */
function output(json: boolean, isTTY: boolean) {
  const said = { out: "", errors: "" };
  const stream = (name: "out" | "errors") =>
    Object.assign(
      new Writable({
        write(chunk, _encoding, done) {
          said[name] += chunk;
          done();
        },
      }),
      { isTTY, columns: 40 },
    );
  const streams = { out: stream("out"), errors: stream("errors") };
  return { said, streams, output: new Output(json, streams) };
}

const often = (one: Output) => {
  for (let i = 1; i <= 100; i++) {
    one.progress(
      () => `${i} of 100, and much more than fits into one line of a terminal`,
      () => ({ done: i, total: 100 }),
      i === 100,
    );
  }
};

describe("progress", () => {
  test("on a terminal is one line that is replaced, cut to its width, and gone before the next result", () => {
    const { said, output: one } = output(false, true);
    often(one);
    one.line("result");
    expect(said.errors.startsWith("\r\u001b[K1 of 100, and")).toBe(true);
    expect(said.errors.split("\r\u001b[K")[1]).toHaveLength(39);
    expect(said.errors).not.toContain("\n");
    expect(said.errors.endsWith("\r\u001b[K")).toBe(true);
    expect(said.out).toBe("result\n");
  });

  test("elsewhere is a plain line now and then", () => {
    const { said, output: one } = output(false, false);
    often(one);
    expect(said.errors).toBe("1 of 100, and much more than fits into one line of a terminal\n");
  });

  test("for programs is one object now and then, and one at the end", () => {
    const { said, output: one } = output(true, true);
    often(one);
    one.line("for people");
    one.note("for people");
    expect(said.errors).toBe("");
    expect(
      said.out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { event: "progress", done: 1, total: 100 },
      { event: "progress", done: 100, total: 100 },
    ]);
  });
});

test("secrets are taken out of everything that is said", () => {
  for (const json of [false, true]) {
    const { said, output: one } = output(json, true);
    one.hide(["canary-value"]);
    one.line("canary-value");
    one.note("canary-value");
    one.warn("canary-value");
    one.event("x", { inner: "canary-value" });
    one.error("IO", "canary-value");
    one.progress(
      () => "canary-value",
      () => ({ text: "canary-value" }),
    );
    expect(said.out + said.errors).not.toContain("canary-value");
    expect(said.out + said.errors).toContain("***");
  }
});

test("a reader that goes away is not the end", () => {
  const { streams, output: one } = output(false, false);
  streams.out.destroy(Object.assign(new Error("gone"), { code: "EPIPE" }));
  expect(() => one.line("x")).not.toThrow();
});

test("figures", () => {
  expect([3, 999, 1000, 9_949, 42_000, 200_000, 3_900_000, 90_000_000].map(duration)).toEqual([
    "3 ms",
    "999 ms",
    "1.0 s",
    "9.9 s",
    "42 s",
    "3 min 20 s",
    "65 min 00 s",
    "25 h 00 min",
  ]);
  expect([score(0.5), score(null), score(undefined), score(Number.NaN)]).toEqual(["0.500", "-", "-", "-"]);
  expect([rate(30, 1000), rate(3000, 1000), rate(0, 0)]).toEqual(["30.0", "3000", "0.0"]);
});

test("foreign text is one line of what can be printed", () => {
  expect(oneLine("a\u001b[31m\tb\r\nc\u202e")).toBe("a\ufffd[31m b c\ufffd");
  expect(oneLine("x".repeat(10), 4)).toBe("xxxx…");
  expect(manyLines("a\u0007\nb")).toBe("a\ufffd\nb");
});

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { HindsearchError, HindsearchErrorCode } from "../lib/errors.js";

test("every code of the native side is in the table", async () => {
  const header = await readFile(resolve(import.meta.dirname, "../native/core/error.h"), "utf8");
  const native = [...header.matchAll(/std::string_view k\w+ = "(\w+)";/g)].map((match) => match[1]);
  expect(native.length).toBeGreaterThan(0);
  expect(Object.keys(HindsearchErrorCode)).toEqual(expect.arrayContaining(native));
});

test("every code is its own name", () => {
  for (const [name, value] of Object.entries(HindsearchErrorCode)) expect(value).toBe(name);
});

test("an error of the native side gets its class and keeps its cause", () => {
  const native = Object.assign(new Error("disk full"), { code: "IO" });
  const error = HindsearchError.from(native);
  expect(error).toBeInstanceOf(HindsearchError);
  expect(error).toMatchObject({ name: "HindsearchError", code: "IO", message: "disk full", cause: native });
});

test("what is not ours keeps its identity", () => {
  const system = Object.assign(new Error("no such file"), { code: "ENOENT" });
  const ours = new HindsearchError("IO", "x");
  for (const error of [new TypeError("x"), system, ours, "text", undefined])
    expect(HindsearchError.from(error)).toBe(error);
});

test("what is known of an error is told, or taken from its cause", () => {
  const cause = (details: object) => Object.assign(new Error("x"), details);
  const made = (details: object) => new HindsearchError("RETRIEVAL_FAILED", "x", details);
  expect(made({ retryable: false, retryAfterMs: 5 })).toMatchObject({ retryable: false, retryAfterMs: 5 });
  const busy = cause({ retryable: true, retryAfterMs: 7 });
  expect(made({ cause: busy })).toMatchObject({ retryable: true, retryAfterMs: 7 });
  expect(made({ cause: busy, retryable: false })).toMatchObject({ retryable: false, retryAfterMs: 7 });
  for (const odd of [
    undefined,
    null,
    "text",
    cause({ retryable: "yes", retryAfterMs: "5" }),
    cause({ retryAfterMs: Number.NaN }),
    cause({ retryAfterMs: Number.POSITIVE_INFINITY }),
  ]) {
    expect(Object.keys(made({ cause: odd })).sort()).toEqual(["code", "name"]);
  }
});

import { describe, expect, test } from "vitest";
import { LatencyRecorder } from "../../lib/network/latency.js";
import { Scrubber } from "../../lib/network/secrets.js";

describe("LatencyRecorder", () => {
  test("is all zeros before the first call", () => {
    expect(new LatencyRecorder().summary()).toEqual({ count: 0, p50: 0, p90: 0, p99: 0, max: 0 });
  });

  test("gives nearest-rank quantiles, whatever the order", () => {
    const recorder = new LatencyRecorder();
    for (let i = 0; i < 100; i++) recorder.record(((i * 37) % 100) + 1);
    expect(recorder.summary()).toEqual({ count: 100, p50: 50, p90: 90, p99: 99, max: 100 });
  });

  test("forgets all but the last 4,096", () => {
    const recorder = new LatencyRecorder();
    recorder.record(1e9);
    for (let i = 0; i < 4096; i++) recorder.record(2);
    expect(recorder.summary()).toMatchObject({ count: 4097, p50: 2, max: 2 });
  });
});

describe("Scrubber", () => {
  const scrubber = new Scrubber(["sk-secret", "sk-secret-longer", "a+b/c=d", undefined, "abc"]);

  test("takes secrets out, the longest first, also encoded for a URL", () => {
    expect(scrubber.scrub("x sk-secret-longer y sk-secret z a%2Bb%2Fc%3Dd abc")).toBe(
      "x *** y *** z *** abc",
    );
  });

  test("an excerpt is one short quoted line", () => {
    const excerpt = scrubber.excerpt(`<html>\n\u001b[31m\u202e"key" ${"x".repeat(1000)}sk-secret`);
    expect(excerpt).toMatch(/^"<html> \[31m \\"key\\" x+…"$/);
    expect(excerpt.length).toBeLessThan(180);
  });

  test("a secret at the cut is gone as a whole", () => {
    expect(scrubber.excerpt(`${"x".repeat(155)}sk-secret`)).toBe(`"${"x".repeat(155)}***"`);
  });
});

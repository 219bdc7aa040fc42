import { describe, expect, test } from "vitest";
import { LatencyRecorder } from "../../lib/network/latency.js";
import { requestSecrets, Scrubber } from "../../lib/network/secrets.js";

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

  test.each([0, 1, 2, 3])(
    "finds them in base64, %d bytes behind its beginning, in either alphabet",
    (before) => {
      const text = `${"x".repeat(before)}sk-secret-longer?>~ and more`;
      for (const form of [Buffer.from(text).toString("base64"), Buffer.from(text).toString("base64url")]) {
        const left = Buffer.from(
          new Scrubber(["sk-secret-longer?>~"]).scrub(form).replace("***", ""),
          "base64",
        );
        expect(left.toString("latin1")).not.toMatch(/secret|longer/);
      }
    },
  );

  test("finds what was encoded twice", () => {
    const secret = 'sk-"secret"/longer';
    const once = [encodeURIComponent(secret), JSON.stringify(secret), Buffer.from(secret).toString("base64")];
    for (const text of once) {
      expect(new Scrubber([secret]).scrub(encodeURIComponent(text))).toMatch(/^(%22)?\*\*\*/);
    }
  });

  test("reads no more of a page than it shows, and shows no half secret at its end", () => {
    const page = "sk-secret-longer".repeat(300_000);
    const start = performance.now();
    expect(new Scrubber(["sk-secret-longer"]).excerpt(page)).toMatch(/^"(\*{3})+\*{0,2}…?"$/);
    expect(performance.now() - start).toBeLessThan(200);
  });

  test("takes only long ones out of contents, where a short one may be a word", () => {
    const careful = new Scrubber(["Stanford", "sk-secret-longer"]);
    expect(careful.scrub("Stanford, sk-secret-longer")).toBe("***, ***");
    expect(careful.scrubContents("Stanford, sk-secret-longer")).toBe("Stanford, ***");
  });
});

test("the secrets of a request are its key and what its headers and its address's query are made of", () => {
  const secrets = requestSecrets({
    apiKey: "the-key",
    headers: {
      authorization: `Basic ${Buffer.from("user:the-password").toString("base64")}`,
      cookie: "theme=dark; session=the-session",
    },
    url: "http://h/path?api_key=a%2fb+c&plain",
  });
  for (const secret of ["the-key", "the-password", "the-session", "a%2fb+c", "a/b c", "plain"]) {
    expect(secrets).toContain(secret);
  }
});

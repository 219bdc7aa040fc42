import { describe, expect, test } from "vitest";
import { AttemptError, isRetryableStatus, parseRetryAfter, Retrier } from "../../lib/network/retry.js";

/** Fails with each error in turn, then succeeds. Keeps the times of its calls. */
function failing(...errors: Error[]) {
  const calls: number[] = [];
  const attempt = async () => {
    calls.push(performance.now());
    const error = errors[calls.length - 1];
    if (error !== undefined) throw error;
    return "done";
  };
  return { attempt, calls, gaps: () => calls.slice(1).map((at, i) => at - (calls[i] as number)) };
}

const passing = () => new AttemptError("busy", { retryable: true, status: 503 });
const told = (retryAfterMs: number) =>
  new AttemptError("busy", { retryable: true, status: 429, retryAfterMs });

describe("Retrier", () => {
  test("a server that says at once is not asked at once", async () => {
    const { attempt, gaps } = failing(told(0), told(1), told(0));
    expect(await new Retrier({ baseDelayMs: 40 }).run(attempt, undefined)).toBe("done");
    for (const [i, gap] of gaps().entries()) expect(gap).toBeGreaterThanOrEqual(20 * 2 ** i - 2);
  });

  test("repeats what may pass, with growing waits", async () => {
    const { attempt, gaps } = failing(passing(), passing(), passing());
    const retrier = new Retrier({ baseDelayMs: 40 });
    expect(await retrier.run(attempt, undefined)).toBe("done");
    expect(retrier.retried).toBe(3);
    for (const [i, gap] of gaps().entries()) {
      expect(gap).toBeGreaterThanOrEqual(20 * 2 ** i - 2);
      expect(gap).toBeLessThan(40 * 2 ** i + 100);
    }
  });

  test("waits no longer than maxDelayMs", async () => {
    const { attempt, gaps } = failing(...Array.from({ length: 6 }, passing));
    await new Retrier({ baseDelayMs: 10, maxDelayMs: 20, retries: 6 }).run(attempt, undefined);
    expect(Math.max(...gaps())).toBeLessThan(120);
  });

  test("gives up after so many retries and says how often it tried", async () => {
    const { attempt, calls } = failing(...Array.from({ length: 9 }, passing));
    const run = new Retrier({ baseDelayMs: 1, retries: 2 }).run(attempt, undefined);
    await expect(run).rejects.toMatchObject({ message: "busy (3 attempts)", status: 503, retryable: true });
    expect(calls).toHaveLength(3);
  });

  test.each([new AttemptError("no", { retryable: false, status: 401 }), new TypeError("a bug")])(
    "does not repeat %s",
    async (error) => {
      const { attempt, calls } = failing(error);
      await expect(new Retrier({ baseDelayMs: 1 }).run(attempt, undefined)).rejects.toBe(error);
      expect(calls).toHaveLength(1);
    },
  );

  test("waits as told, never less", async () => {
    const { attempt, gaps } = failing(told(150), told(0));
    await new Retrier({ baseDelayMs: 1 }).run(attempt, undefined);
    expect(gaps()[0]).toBeGreaterThanOrEqual(149);
    expect(gaps()[0]).toBeLessThan(400);
  });

  test("a told wait holds back every request of the client", async () => {
    const retrier = new Retrier({ baseDelayMs: 1 });
    const start = performance.now();
    const first = retrier.run(failing(told(150)).attempt, undefined);
    await new Promise((done) => setTimeout(done, 20));
    await retrier.run(async () => "other", undefined);
    expect(performance.now() - start).toBeGreaterThanOrEqual(149);
    await first;
  });

  test("more than 60 s is waited if allowed, and refused with the figure if not", async () => {
    const controller = new AbortController();
    const allowed = new Retrier({}).run(failing(told(90_000)).attempt, controller.signal);
    const outcome = await Promise.race([
      allowed.catch(() => "failed"),
      new Promise((done) => setTimeout(done, 60, "waiting")),
    ]);
    expect(outcome).toBe("waiting");
    controller.abort();
    await expect(allowed).rejects.toMatchObject({ code: "ABORTED" });

    const refused = new Retrier({ maxRetryAfterMs: 60_000 }).run(failing(told(90_000)).attempt, undefined);
    await expect(refused).rejects.toThrow("the server asks to wait 90 s, longer than maxRetryAfterMs (60 s)");
  });

  test("an abort during a wait ends it at once", async () => {
    const controller = new AbortController();
    const { attempt, calls } = failing(passing());
    const outcome = new Retrier({ baseDelayMs: 20_000 })
      .run(attempt, controller.signal)
      .catch((error: unknown) => error);
    const turn = () => new Promise((done) => setImmediate(done, "waiting"));
    // The attempt fails at once, so a turn of the event loop later the wait has begun.
    expect(await Promise.race([outcome, turn()])).toBe("waiting");
    controller.abort();
    expect(await Promise.race([outcome, turn()])).toMatchObject({ code: "ABORTED" });
    expect(calls).toHaveLength(1);
  });

  test("an abort during an attempt is no failed attempt", async () => {
    const controller = new AbortController();
    const attempt = async () => {
      controller.abort();
      throw passing();
    };
    await expect(new Retrier({}).run(attempt, controller.signal)).rejects.toMatchObject({ code: "ABORTED" });
  });
});

test("which statuses may pass", () => {
  const retried = Array.from({ length: 200 }, (_, i) => 400 + i).filter(isRetryableStatus);
  expect(retried.filter((status) => status < 500)).toEqual([408, 409, 429]);
  expect(retried.filter((status) => status >= 500)).toHaveLength(100);
});

describe("Retry-After", () => {
  const now = Date.parse("2026-11-30T12:00:00Z");
  test.each([
    ["0", 0],
    ["90", 90_000],
    [" 1.5 ", 1500],
    ["Mon, 30 Nov 2026 12:00:07 GMT", 7000],
    ["Mon, 30 Nov 2026 11:00:00 GMT", 0],
    ["-5", undefined],
    ["soon", undefined],
    ["", undefined],
    [null, undefined],
    [undefined, undefined],
  ])("%j", (header, expected) => {
    expect(parseRetryAfter(header, now)).toBe(expected);
  });
});

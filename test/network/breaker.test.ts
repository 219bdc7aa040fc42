import { describe, expect, test } from "vitest";
import { sleep } from "../../lib/abort.js";
import { Breaker } from "../../lib/network/breaker.js";
import { GuardedRetrier } from "../../lib/network/guarded-retrier.js";
import { AttemptError } from "../../lib/network/retry.js";

const gone = () => new AttemptError("connection refused", { retryable: true });
const refused = () => new AttemptError("status 400", { retryable: false, status: 400 });
const fails = (error: Error) => async () => {
  throw error;
};
const succeeds = async () => "done";
const breaker = (breakerFailures: number, breakerOpenMs: number) =>
  new Breaker({ breakerFailures, breakerOpenMs }, ({ retryable }) => retryable);
const reason = (run: Promise<unknown>) => run.then(String, (error: Error) => error.message);

/** A request that is under way until it is told how it ends. */
function request() {
  let settle: (error?: Error) => void = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    settle = (error) => (error === undefined ? resolve() : reject(error));
  });
  const run = async () => {
    await ended;
    return "done";
  };
  return { run, settle };
}

describe("what opens it", () => {
  test("so many failures in a row, and then nothing is sent", async () => {
    const guard = breaker(3, 60_000);
    for (let i = 0; i < 3; i++)
      await expect(guard.run(fails(gone()), undefined)).rejects.toThrow("connection");
    expect(guard.stats()).toEqual({ state: "open", opened: 1, refused: 0 });
    const before = Date.now();
    const error = await guard.run(succeeds, undefined).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(AttemptError);
    const { message, retryable, retryAfterMs } = error as AttemptError;
    const times =
      /since (\S+), when 3 .* last reason was: connection refused; the next try is at (\S+)$/.exec(message);
    expect(Math.abs(Date.parse(times?.[1] ?? "") - before)).toBeLessThan(5_000);
    expect(Date.parse(times?.[2] ?? "") - Date.parse(times?.[1] ?? "")).toBe(60_000);
    expect(retryable).toBe(true);
    expect(retryAfterMs).toBeGreaterThan(50_000);
    expect(guard.stats()).toEqual({ state: "open", opened: 1, refused: 1 });
  });

  test.each<[string, () => Promise<unknown>]>([
    ["a success", succeeds],
    ["a refusal of the request", fails(refused())],
  ])("not with %s between them", async (_name, between) => {
    const guard = breaker(2, 60_000);
    for (let i = 0; i < 5; i++) {
      await reason(guard.run(fails(gone()), undefined));
      await reason(guard.run(between, undefined));
    }
    expect(guard.stats().state).toBe("closed");
  });

  test.each([refused(), new TypeError("a bug")])("never %s", async (error) => {
    const guard = breaker(1, 60_000);
    for (let i = 0; i < 5; i++) await expect(guard.run(fails(error), undefined)).rejects.toBe(error);
    expect(guard.stats()).toEqual({ state: "closed", opened: 0, refused: 0 });
  });

  test("what says nothing about the server leaves the count as it is", async () => {
    const guard = breaker(2, 60_000);
    await reason(guard.run(fails(gone()), undefined));
    await reason(guard.run(fails(new TypeError("a bug")), undefined));
    await reason(guard.run(fails(gone()), undefined));
    expect(guard.stats().state).toBe("open");
  });
});

describe("when it is half open", () => {
  const opened = async () => {
    const guard = breaker(1, 20);
    await reason(guard.run(fails(gone()), undefined));
    await sleep(25, undefined);
    return guard;
  };

  test("one request tries, the others wait for it and then go on", async () => {
    const guard = await opened();
    const { run, settle } = request();
    const tries: boolean[] = [];
    const others: string[] = [];
    const first = guard.run((trying) => {
      tries.push(trying);
      return run();
    }, undefined);
    const waiting = ["a", "b"].map((name) =>
      guard.run(async (trying) => {
        tries.push(trying);
        others.push(name);
      }, undefined),
    );
    await sleep(20, undefined);
    expect(others).toEqual([]);
    expect(guard.stats().state).toBe("half-open");
    settle();
    await Promise.all([first, ...waiting]);
    expect(others).toEqual(["a", "b"]);
    expect(tries).toEqual([true, false, false]);
    expect(guard.stats()).toEqual({ state: "closed", opened: 1, refused: 0 });
  });

  test("a try that fails opens it again, for those that wait as well; it is the same outage", async () => {
    const guard = await opened();
    const { run, settle } = request();
    const first = reason(guard.run(run, undefined));
    const waiting = reason(guard.run(succeeds, undefined));
    settle(new AttemptError("still gone", { retryable: true }));
    expect(await first).toBe("still gone");
    expect(await waiting).toMatch(/last reason was: still gone/);
    expect(guard.stats()).toEqual({ state: "open", opened: 1, refused: 1 });
  });

  test("a try that is refused for what it asks closes it: somebody is there", async () => {
    const guard = await opened();
    expect(await reason(guard.run(fails(refused()), undefined))).toBe("status 400");
    expect(guard.stats().state).toBe("closed");
  });

  test("a try that ends without a word of the server's closes nothing", async () => {
    const guard = await opened();
    expect(await reason(guard.run(fails(new TypeError("aborted")), undefined))).toBe("aborted");
    expect(guard.stats().state).toBe("open");
  });

  test("requests that were sent before it opened do not open it again", async () => {
    const guard = breaker(1, 20);
    const late = request();
    const sent = reason(guard.run(late.run, undefined));
    await reason(guard.run(fails(gone()), undefined));
    await sleep(25, undefined);
    const trying = request();
    const tried = guard.run(trying.run, undefined);
    late.settle(gone());
    await sent;
    trying.settle();
    await tried;
    expect(guard.stats()).toEqual({ state: "closed", opened: 1, refused: 0 });
  });

  test("an abort ends the wait for another's try at once", async () => {
    const guard = await opened();
    const { run, settle } = request();
    const first = guard.run(run, undefined);
    const controller = new AbortController();
    const waiting = guard.run(succeeds, controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    settle();
    expect(await first).toBe("done");
  });
});

describe("with retries", () => {
  const guarded = (options = {}) =>
    new GuardedRetrier({ retries: 2, baseDelayMs: 1, breakerFailures: 2, breakerOpenMs: 250, ...options });

  test("a request counts once, and its try has no retries", async () => {
    const requests = guarded();
    let attempts = 0;
    const failing = async () => {
      attempts++;
      throw gone();
    };
    for (let i = 0; i < 2; i++) await reason(requests.run(failing, undefined));
    expect(attempts).toBe(6);
    await reason(requests.run(failing, undefined));
    expect(attempts).toBe(6);
    await sleep(260, undefined);
    await reason(requests.run(failing, undefined));
    expect(attempts).toBe(7);
    expect(requests.stats()).toMatchObject({
      retries: 4,
      latency: { count: 3 },
      breaker: { state: "open", opened: 1, refused: 1 },
    });
  });

  test("callers who lose patience between the retries leave failures behind, before the first one nothing", async () => {
    const requests = guarded({ baseDelayMs: 1_000 });
    const impatient = async (attempt: () => Promise<never>) => {
      const controller = new AbortController();
      const run = requests.run(attempt, controller.signal);
      setTimeout(() => controller.abort(), 5);
      await expect(run).rejects.toMatchObject({ code: "ABORTED" });
    };
    const hanging = () =>
      impatient(async () => {
        await sleep(30, undefined);
        throw gone();
      });
    await hanging();
    await hanging();
    await sleep(40, undefined);
    expect(requests.stats().breaker.state).toBe("closed");
    await impatient(fails(gone()));
    await impatient(fails(gone()));
    expect(requests.stats().breaker.state).toBe("open");
  });

  test("a server that answers a part is there", async () => {
    const requests = guarded({ breakerFailures: 1 });
    const partly = new AttemptError("shard 3 failed", { retryable: true, answered: true });
    await reason(requests.run(fails(partly), undefined));
    expect(requests.stats().breaker.state).toBe("closed");
  });
});

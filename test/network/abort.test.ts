import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { abortable, onAbort, sleep, withDeadline } from "../../lib/abort.js";

const warnings: string[] = [];
const listen = (warning: Error) => warnings.push(warning.name);
beforeEach(() => {
  warnings.length = 0;
  process.on("warning", listen);
});
afterEach(() => {
  process.off("warning", listen);
});

test("a thousand calls under one signal raise no warning and all end", async () => {
  const controller = new AbortController();
  const calls = Array.from({ length: 1000 }, () => sleep(10_000, controller.signal));
  controller.abort(new Error("why"));
  for (const outcome of await Promise.allSettled(calls)) {
    expect(outcome).toMatchObject({
      status: "rejected",
      reason: { code: "ABORTED", cause: { message: "why" } },
    });
  }
  await new Promise((done) => setImmediate(done));
  expect(warnings).toEqual([]);
});

test("listeners are taken off when the work is over", async () => {
  const controller = new AbortController();
  let fired = 0;
  onAbort(controller.signal, () => fired++)();
  await abortable(Promise.resolve(1), controller.signal);
  await abortable(Promise.reject(new Error("x")), controller.signal).catch(() => {});
  controller.abort();
  expect(fired).toBe(0);
});

test("a signal that has fired ends a call at once", async () => {
  await expect(sleep(10_000, AbortSignal.abort())).rejects.toMatchObject({ code: "ABORTED" });
});

describe("withDeadline", () => {
  const never = (signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => onAbort(signal, () => reject(signal.reason)));

  test("tells its own time from the caller's abort", async () => {
    let late: boolean | undefined;
    const body = (signal: AbortSignal, timedOut: () => boolean) =>
      never(signal).finally(() => {
        late = timedOut();
      });
    await expect(withDeadline(10, undefined, body)).rejects.toThrow("deadline of 10 ms");
    expect(late).toBe(true);
    const controller = new AbortController();
    const call = withDeadline(10_000, controller.signal, body);
    controller.abort(new Error("mine"));
    await expect(call).rejects.toThrow("mine");
    expect(late).toBe(false);
  });

  test("passes the result through", async () => {
    expect(await withDeadline(1000, new AbortController().signal, async () => 7)).toBe(7);
  });
});

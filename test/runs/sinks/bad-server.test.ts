import { spawn } from "node:child_process";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { type Handler, LoopbackServer } from "../../support/loopback-server.js";
import { drop, flood, hang, reset, trickle, trickleHeaders } from "../../support/misbehaviour.js";

vi.setConfig({ testTimeout: 30_000 });
const CHILD = join(import.meta.dirname, "bad-server.child.ts");

/** Runs the child; `talk` hears of its lines but the last, and may write to it. */
async function runWith(kind: string, url: string, talk?: (line: string, done: () => void) => void) {
  const child = spawn(process.execPath, ["--import", "tsx", CHILD, kind, url], {
    cwd: resolve(import.meta.dirname, "../../.."),
    stdio: ["pipe", "pipe", "inherit"],
  });
  let said = "";
  let last = 0;
  child.stdout.on("data", (chunk) => {
    said += chunk;
    last = performance.now();
    if (/^http.*\n$/.test(said)) talk?.(said.trim(), () => child.stdin.end());
  });
  const code = await new Promise((closed) => child.on("close", closed));
  const lingered = performance.now() - last;
  return { code, lingered, ...JSON.parse(said.trim().split("\n").at(-1) as string) };
}

describe.each(["webhook", "openTelemetry", "mlflow"])("%s", (kind) => {
  test.each<[string, Handler]>([
    ["takes requests and never answers", hang],
    ["closes the connection", drop],
    ["resets the connection in the middle of the answer", reset],
    ["answers a byte now and then", trickle],
    ["sends a header now and then", trickleHeaders],
    ["answers without end", flood],
  ])("at a server that %s: no step waits, the end does not, the process ends", async (_, handler) => {
    await using server = await LoopbackServer.start(handler);
    const { code, lingered, slowestPush, end, report, warnings } = await runWith(kind, server.origin);
    expect(server.requests.length).toBeGreaterThan(0);
    expect(code).toBe(0);
    expect(slowestPush).toBeLessThan(1_000);
    expect(end).toBeLessThan(3_000);
    expect(lingered).toBeLessThan(10_000);
    // What the server did not confirm is not called written.
    expect(report.written + report.dropped).toBe(20);
    expect(warnings.length).toBe(Number(report.failures > 0) + Number(report.dropped > 0));
    expect(server.inFlight).toBe(0);
  });
});

test("Prometheus: scrapers that say nothing, and half of it, keep neither run nor process", async () => {
  const { code, lingered, end, report } = await runWith("prometheus", "", (url, done) => {
    const { port, hostname } = new URL(url);
    const open = () => connect(Number(port), hostname).on("error", () => {});
    open();
    open().write("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    const reader = open();
    reader.write("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    reader.once("data", done);
  });
  expect(code).toBe(0);
  expect(end).toBeLessThan(3_000);
  expect(lingered).toBeLessThan(10_000);
  expect(report).toMatchObject({ written: 20, dropped: 0 });
});

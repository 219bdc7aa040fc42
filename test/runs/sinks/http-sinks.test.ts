import { describe, expect, test } from "vitest";
import { OpenTelemetrySink } from "../../../lib/runs/sinks/open-telemetry.js";
import { WebhookSink } from "../../../lib/runs/sinks/webhook.js";
import { loopbackServer, sendJson } from "../../support/loopback-server.js";

const server = loopbackServer((_request, response) => sendJson(response, {}));
const run = { id: "id-1", name: "first", folder: "runs/first", step: 4, config: { seed: 3 } };
const points = [
  { name: "rollout/reward", value: 0.5, step: 5, time: 1_700_000_000_123 },
  { name: "rollout/statuses/no answer", value: 2, step: 5, time: 1_700_000_000_123 },
  { name: "rollout/reward", value: 0.75, step: 6, time: 1_700_000_000_456 },
];
const KEY = "webhook-key-1234";

describe("webhook", () => {
  test("posts start, points and end; any 2xx answer will do", async () => {
    server.current.handler = (_request, response, index) => {
      response.writeHead(index === 0 ? 204 : 200, { "content-type": "text/plain" });
      response.end(index === 0 ? undefined : "ok");
    };
    const sink = new WebhookSink({ url: `${server.current.origin}/hook?key=secret-value`, apiKey: KEY });
    await sink.start(run, {});
    await sink.write(points, {});
    await sink.end("finished", {});
    const told = { id: "id-1", name: "first", step: 4 };
    expect(server.current.requests.map(({ method, path, body }) => ({ method, path, body }))).toEqual([
      {
        method: "POST",
        path: "/hook?key=secret-value",
        body: { event: "start", run: told, config: { seed: 3 } },
      },
      { method: "POST", path: "/hook?key=secret-value", body: { event: "metrics", run: told, points } },
      {
        method: "POST",
        path: "/hook?key=secret-value",
        body: { event: "end", run: told, outcome: "finished" },
      },
    ]);
    for (const { headers } of server.current.requests) expect(headers.authorization).toBe(`Bearer ${KEY}`);
    expect(sink.name).toBe(`webhook at ${server.current.origin}`);
  });

  test("a refusal says what the server said, without the key", async () => {
    server.current.handler = (request, response) => {
      response.writeHead(403).end(`no such key: ${request.headers.authorization}`);
    };
    const sink = new WebhookSink({ url: server.current.origin, apiKey: KEY });
    const error = await sink.start(run, {}).catch((cause: Error) => cause);
    expect(String(error)).toMatch(/status 403: "no such key/);
    expect(String(error)).not.toContain(KEY);
    await sink.end("failed", {});
    expect(server.current.requests.length).toBe(1);
  });

  test("the path, in which many services have the key, is shown nowhere", async () => {
    server.current.handler = (request, response) => {
      response
        .writeHead(404)
        .end(`no ${request.path}, ${encodeURIComponent(request.path)}, canary-path-1234`);
    };
    const sink = new WebhookSink({ url: `${server.current.origin}/services/T0/canary-path-1234` });
    const error = await sink.start(run, {}).catch((cause: Error) => cause);
    expect(String(error)).toContain("status 404");
    expect(`${sink.name} ${error}`).not.toContain("canary");
    await sink.end("failed", {});
  });

  test("a server that does not answer is given up with the signal", async () => {
    server.current.handler = () => {};
    const sink = new WebhookSink({ url: server.current.origin });
    await expect(sink.start(run, { signal: AbortSignal.timeout(100) })).rejects.toThrow(/connection failed/);
    await sink.end("failed", {});
  });

  test("addresses that are none are refused", () => {
    for (const url of ["ftp://x", "x", "http://user:pass@x"]) {
      expect(() => new WebhookSink({ url })).toThrow(/url/);
    }
  });
});

test("OpenTelemetry: gauges in OTLP's JSON", async () => {
  const sink = new OpenTelemetrySink({
    url: `${server.current.origin}/v1/metrics`,
    headers: { "x-team": "abcdef" },
  });
  await sink.start(run);
  await sink.write(points, {});
  await sink.end();
  const attributes = (step: string) => [{ key: "hindsearch.step", value: { intValue: step } }];
  const [request] = server.current.requests;
  expect(request).toMatchObject({ method: "POST", path: "/v1/metrics" });
  expect(request?.headers).toMatchObject({ "content-type": "application/json", "x-team": "abcdef" });
  expect(request?.body).toEqual({
    resourceMetrics: [
      {
        resource: {
          attributes: [
            { key: "service.name", value: { stringValue: "hindsearch" } },
            { key: "service.instance.id", value: { stringValue: "id-1" } },
            { key: "hindsearch.run", value: { stringValue: "first" } },
          ],
        },
        scopeMetrics: [
          {
            scope: { name: "hindsearch" },
            metrics: [
              {
                name: "hindsearch.rollout.reward",
                gauge: {
                  dataPoints: [
                    { attributes: attributes("5"), timeUnixNano: "1700000000123000000", asDouble: 0.5 },
                    { attributes: attributes("6"), timeUnixNano: "1700000000456000000", asDouble: 0.75 },
                  ],
                },
              },
              {
                name: "hindsearch.rollout.statuses.no_answer",
                gauge: {
                  dataPoints: [
                    { attributes: attributes("5"), timeUnixNano: "1700000000123000000", asDouble: 2 },
                  ],
                },
              },
            ],
          },
        ],
      },
    ],
  });
  expect(sink.name).toBe(`OpenTelemetry ${server.current.origin}/v1/metrics`);
  expect(new OpenTelemetrySink().name).toBe("OpenTelemetry http://127.0.0.1:4318/v1/metrics");
});

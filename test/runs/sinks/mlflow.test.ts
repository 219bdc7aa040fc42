import { expect, test } from "vitest";
import { MlflowSink } from "../../../lib/runs/sinks/mlflow.js";
import { loopbackServer, sendJson } from "../../support/loopback-server.js";
import { MlflowServer } from "./mlflow-server.js";

const server = loopbackServer(() => {});
const run = { id: "id-1", name: "first", folder: undefined, step: 0, config: {} };

test("a run with its settings and points, found again after a resume", async () => {
  const mlflow = new MlflowServer();
  server.current.handler = mlflow.handle;
  const settings = {
    seed: 3,
    kl: null,
    distillation: { term: { weight: 0.5, clamp: [0, 1] } },
    long: "x".repeat(900),
  };
  const many = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`option${i}`, i]));
  const first = new MlflowSink({ url: `${server.current.origin}/`, experiment: "mine" });
  await first.start({ ...run, config: { ...settings, ...many } }, {});
  const points = Array.from({ length: 2_500 }, (_, i) => ({
    name: i === 0 ? "größe: x" : "rollout/reward",
    value: i / 4,
    step: i,
    time: 1_700_000_000_000.6 + i,
  }));
  await first.write(points, {});
  await first.end("failed", {});

  const [stored] = [...mlflow.runs.values()];
  expect(mlflow.runs.size).toBe(1);
  expect(stored).toMatchObject({ name: "first", status: "FAILED" });
  expect(Object.fromEntries(stored?.params ?? [])).toEqual({
    ...{
      seed: "3",
      "distillation.term.weight": "0.5",
      "distillation.term.clamp": "[0,1]",
      long: "x".repeat(500),
    },
    ...Object.fromEntries(Object.entries(many).map(([key, value]) => [key, String(value)])),
  });
  expect(stored?.metrics.length).toBe(2_500);
  expect(stored?.metrics[0]).toEqual({ key: "gr__e_ x", value: 0, step: 0, timestamp: 1_700_000_000_001 });
  expect(stored?.metrics[2_499]).toMatchObject({ key: "rollout/reward", value: 2_499 / 4, step: 2_499 });
  const batches = server.current.requests
    .filter(({ body }) => body.metrics)
    .map(({ body }) => body.metrics.length);
  expect(batches).toEqual([1_000, 1_000, 500]);

  const second = new MlflowSink({ url: server.current.origin, experiment: "mine" });
  await second.start({ ...run, step: 40 }, {});
  expect(stored?.status).toBe("RUNNING");
  await second.write([{ name: "a", value: 1, step: 41, time: 0 }], {});
  await second.end("finished", {});
  expect([...mlflow.experiments.values()]).toEqual(["mine"]);
  expect(mlflow.runs.size).toBe(1);
  expect(stored).toMatchObject({ status: "FINISHED" });
  expect(stored?.metrics.length).toBe(2_501);
});

test("a start that failed behind the creation of the run logs the settings when it is repeated", async () => {
  const mlflow = new MlflowServer();
  let failing = true;
  server.current.handler = (request, response) => {
    if (failing && request.body.params) return sendJson(response, { message: "busy" }, 503);
    return mlflow.handle(request, response);
  };
  const sink = new MlflowSink({ url: server.current.origin });
  const told = { ...run, id: "id-2", config: { seed: 3 } };
  await expect(sink.start(told, {})).rejects.toThrow("503");
  failing = false;
  await sink.start(told, {});
  await sink.end("finished", {});
  expect([...mlflow.runs.values()].map(({ params }) => [...params])).toEqual([[["seed", "3"]]]);
});

test("a name that cannot be searched for is refused", () => {
  expect(() => new MlflowSink({ url: "http://127.0.0.1:1", experiment: "it's mine" })).toThrow(
    /without quotes/,
  );
});

test("a server that is none, or refuses, fails the start with its words", async () => {
  const start = async (sink: MlflowSink) => {
    try {
      await sink.start(run, {});
    } finally {
      await sink.end("failed", {});
    }
  };
  server.current.handler = (_request, response) => sendJson(response, { experiments: "none" });
  await expect(start(new MlflowSink({ url: server.current.origin }))).rejects.toThrow(
    /not what MLflow answers/,
  );
  server.current.handler = (_request, response) =>
    sendJson(response, { error_code: "PERMISSION_DENIED", message: "not you" }, 403);
  await expect(start(new MlflowSink({ url: server.current.origin }))).rejects.toThrow(
    /status 403: .*not you/,
  );
});

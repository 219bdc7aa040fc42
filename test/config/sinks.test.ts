import { expect, test } from "vitest";
import { openSinks } from "../../lib/config/open-sinks.js";
import { checkConfiguration } from "../../lib/config/read.js";
import { ConfigurationSource } from "../../lib/config/source.js";
import { loopbackServer } from "../support/loopback-server.js";

const server = loopbackServer((_request, response) => {
  response.end("{}");
});
const read = (sinks: string, environment = {}) =>
  checkConfiguration(
    ConfigurationSource.parse(
      `model: { folder: model }
data: { questions: train.jsonl }
retriever: { kind: memory, corpus: corpus.jsonl }
training: { steps: 300 }
sinks:
${sinks}`,
      "/project/train.yaml",
    ),
    { environment },
  );

test("every kind of sink is opened as it is written", () => {
  const configuration = read(`  - { kind: tensorboard, folder: board }
  - { kind: prometheus, port: 0 }
  - { kind: mlflow, url: "http://127.0.0.1:5000", experiment: search }
  - kind: opentelemetry
  - { kind: webhook, url: "https://hooks.example/x" }
`);
  expect(openSinks(configuration).map(({ name }) => name)).toEqual([
    "tensorboard",
    "prometheus",
    "MLflow http://127.0.0.1:5000/",
    "OpenTelemetry http://127.0.0.1:4318/v1/metrics",
    "webhook at https://hooks.example",
  ]);
  expect(openSinks(read("  []\n"))).toEqual([]);
});

test("a key comes from a variable and reaches the server alone; one that is not set is named", async () => {
  const text = `  - { kind: webhook, url: "${server.current.origin}", apiKey: "\${HOOK_KEY}" }\n`;
  const configuration = read(text, { HOOK_KEY: "canary-1234567" });
  const [sink] = openSinks(configuration);
  const run = { id: "i", name: "n", folder: undefined, step: 0, config: {} };
  await sink?.start?.(run, {});
  await sink?.end?.("finished", {});
  expect(server.current.requests[0]?.headers.authorization).toBe("Bearer canary-1234567");
  expect(configuration.record()).not.toContain("canary");
  expect(() => openSinks(read(text))).toThrow(/HOOK_KEY, which is not set/);
});

test("a mistake is named with its place", () => {
  expect(() => read("  - { kind: prometheus, prot: 1 }\n")).toThrow(/sinks.*prot.*port/s);
  expect(() => read("  - { kind: wandb }\n")).toThrow(/sinks.*tensorboard/s);
});

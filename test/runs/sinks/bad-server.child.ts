import { once } from "node:events";
import type { MetricSink } from "../../../lib/runs/sinks/metric-sink.js";
import { MlflowSink } from "../../../lib/runs/sinks/mlflow.js";
import { OpenTelemetrySink } from "../../../lib/runs/sinks/open-telemetry.js";
import { PrometheusSink } from "../../../lib/runs/sinks/prometheus.js";
import { MetricSinks } from "../../../lib/runs/sinks/sinks.js";
import { WebhookSink } from "../../../lib/runs/sinks/webhook.js";

/** A run of twenty steps of 10 ms with one sink. Says what became of it, and is to end by itself then. */
const [kind = "", url = ""] = process.argv.slice(2);
const sinks: Record<string, () => MetricSink> = {
  mlflow: () => new MlflowSink({ url }),
  openTelemetry: () => new OpenTelemetrySink({ url }),
  webhook: () => new WebhookSink({ url }),
  prometheus: () => new PrometheusSink({ port: 0 }),
};
const sink = (sinks[kind] as () => MetricSink)();
const warnings: string[] = [];
const run = { id: "id", name: "name", folder: undefined, step: 0, config: { seed: 1 } };
const limits = { capacity: 20_000, timeoutMs: 150, retryMs: 20, endMs: 300 };
const all = new MetricSinks([sink], run, (warning) => warnings.push(warning), limits);
let slowestPush = 0;
for (let step = 1; step <= 20; step++) {
  const before = performance.now();
  all.push({ step, kind: "step", rollout: { reward: step } });
  slowestPush = Math.max(slowestPush, performance.now() - before);
  await new Promise((resolve) => setTimeout(resolve, 10));
}
if (sink instanceof PrometheusSink) {
  console.log(sink.url);
  await once(process.stdin.resume(), "end");
}
const before = performance.now();
const [report] = await all.end("finished");
console.log(JSON.stringify({ slowestPush, end: performance.now() - before, report, warnings }));

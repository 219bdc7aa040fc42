import type { MetricSink } from "../runs/sinks/metric-sink.js";
import { MlflowSink } from "../runs/sinks/mlflow.js";
import { OpenTelemetrySink } from "../runs/sinks/open-telemetry.js";
import { PrometheusSink } from "../runs/sinks/prometheus.js";
import { TensorBoardSink } from "../runs/sinks/tensorboard.js";
import { WebhookSink } from "../runs/sinks/webhook.js";
import type { ReadConfiguration } from "./read.js";
import type { SinkConfig } from "./schema/sinks.js";

/**
 * The sinks of a configuration. None of them connects or listens before the training starts.
 *
 * @throws {@link HindsearchError} `INVALID_CONFIGURATION` for a variable that is not set.
 */
export function openSinks(configuration: ReadConfiguration): MetricSink[] {
  configuration.requireVariables("sinks");
  return configuration.values.sinks.map((config) => open(config, (path) => configuration.resolve(path)));
}

function open(config: SinkConfig, resolve: (path: string) => string): MetricSink {
  const { kind, ...options } = config;
  switch (config.kind) {
    case "tensorboard":
      return new TensorBoardSink({ folder: config.folder && resolve(config.folder) });
    case "prometheus":
      return new PrometheusSink({ port: config.port, host: config.host });
    case "mlflow":
      return new MlflowSink(options as typeof config);
    case "opentelemetry":
      return new OpenTelemetrySink(options as typeof config);
    case "webhook":
      return new WebhookSink(options as typeof config);
  }
}

import { z } from "zod";
import { httpSinkShape } from "../../runs/sinks/http-target.js";
import { mlflowShape } from "../../runs/sinks/mlflow.js";
import { openTelemetryShape } from "../../runs/sinks/open-telemetry.js";
import { prometheusShape } from "../../runs/sinks/prometheus.js";
import { tensorBoardShape } from "../../runs/sinks/tensorboard.js";
import { described, kind } from "./fields.js";
import { ENDPOINT_TEXTS, keyText } from "./network.js";

const httpTexts = (variable: string) => ({ apiKey: keyText(variable), headers: ENDPOINT_TEXTS.headers });

/** Where metrics go beside the run folder. */
export const Sinks = z
  .array(
    z.discriminatedUnion("kind", [
      z.strictObject({
        kind: kind("tensorboard", "TensorBoard event files."),
        ...described(tensorBoardShape, {
          folder: "Where they go. Default: `tensorboard` in the run folder.",
        }),
      }),
      z.strictObject({
        kind: kind("prometheus", "The latest value of every metric, at `/metrics`."),
        ...described(prometheusShape, {
          port: "Of `/metrics`; 0: any that is free.",
          host: "Address to listen on. There is no access control.",
        }),
      }),
      z.strictObject({
        kind: kind("mlflow", "An MLflow tracking server."),
        ...described(mlflowShape, {
          ...httpTexts("HINDSEARCH_MLFLOW_API_KEY"),
          url: "Address of the server, e.g. `http://127.0.0.1:5000`.",
          experiment: "Name of the experiment, without quotes; made if it is not there.",
        }),
      }),
      z.strictObject({
        kind: kind("opentelemetry", "A collector, by OTLP over HTTP."),
        ...described(openTelemetryShape, {
          ...httpTexts("HINDSEARCH_OTLP_API_KEY"),
          url: "Where it takes metrics.",
        }),
      }),
      z.strictObject({
        kind: kind("webhook", "JSON to an address of yours."),
        ...described(httpSinkShape, {
          ...httpTexts("HINDSEARCH_WEBHOOK_API_KEY"),
          url: "The address; http or https.",
        }),
      }),
    ]),
  )
  .meta({ id: "sinks" });

/** See {@link Sinks}. */
export type SinkConfig = z.output<typeof Sinks>[number];

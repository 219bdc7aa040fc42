import { z } from "zod";
import type { AbortOptions } from "../../abort.js";
import { parseOptions } from "../../network/options.js";
import { addressOf, type PostTarget, postJson } from "../../network/post-json.js";
import { AttemptError } from "../../network/retry.js";
import { type HttpSinkOptions, httpSinkShape, sinkTarget } from "./http-target.js";
import type { MetricPoint, MetricSink, RunOutcome, SinkRun } from "./metric-sink.js";

/** Options of {@link MlflowSink}. */
export interface MlflowSinkOptions extends HttpSinkOptions {
  /** Of the tracking server, e.g. `http://127.0.0.1:5000`. */
  url: string;
  /** Name of the experiment, without quotes; made if it is not there. Default `hindsearch`. */
  experiment?: string | undefined;
}

/** Schema of {@link MlflowSinkOptions}. @internal */
export const mlflowShape = {
  ...httpSinkShape, // A name with quotes could not be searched for.
  experiment: z
    .string()
    .regex(/^[^'"\\]+$/, "must be a name without quotes and backslashes")
    .default("hindsearch"),
};
const Options = z.strictObject(mlflowShape);

const Experiments = z.object({
  experiments: z.array(z.object({ experiment_id: z.string(), name: z.string() })).default([]),
});
const Experiment = z.object({ experiment_id: z.string() });
const Runs = z.object({ runs: z.array(z.object({ info: z.object({ run_id: z.string() }) })).default([]) });
const Run = z.object({ run: z.object({ info: z.object({ run_id: z.string() }) }) });

/** Limits of the tracking server, for one request and for one value. */
const [METRICS, PARAMS, PARAM_CHARACTERS] = [1_000, 100, 500];
/** By which a resumed run finds its own again. */
const TAG = "hindsearch.run";

const STATUS: Readonly<Record<RunOutcome, string>> = {
  finished: "FINISHED",
  stopped: "KILLED",
  failed: "FAILED",
};

/**
 * Logs to an MLflow tracking server by its REST interface (2.0): a run for each run, found again after a resume by its tag
 * `hindsearch.run`; settings as params; points as metrics. The key is `apiKey`, else `HINDSEARCH_MLFLOW_API_KEY`.
 */
export class MlflowSink implements MetricSink {
  /** For messages. */
  readonly name: string;
  readonly #target: PostTarget;
  readonly #experiment: string;
  #runId: string | undefined;
  /** The run that this sink made; a start that fails behind that is repeated. */
  #created: string | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor(options: MlflowSinkOptions) {
    const { experiment, ...parsed } = parseOptions(Options, options, "MlflowSink");
    this.name = `MLflow ${addressOf(parsed.url)}`;
    this.#target = sinkTarget(parsed, "HINDSEARCH_MLFLOW_API_KEY");
    this.#experiment = experiment;
  }

  /** Creates the run, or finds it again. */
  async start(run: SinkRun, options: AbortOptions): Promise<void> {
    const id = await this.#experimentId(options);
    const found = await this.#post(
      "runs/search",
      { experiment_ids: [id], filter: `tags."${TAG}" = '${run.id}'`, max_results: 1 },
      Runs,
      options,
    );
    const known = found.runs[0]?.info.run_id;
    if (known === undefined) {
      const tags = [{ key: TAG, value: run.id }];
      const created = await this.#post(
        "runs/create",
        { experiment_id: id, run_name: run.name, start_time: Date.now(), tags },
        Run,
        options,
      );
      this.#created = created.run.info.run_id;
    }
    const run_id = known ?? (this.#created as string);
    if (run_id !== this.#created) {
      await this.#post("runs/update", { run_id, status: "RUNNING" }, z.unknown(), options);
    } else {
      // A param cannot be changed later, so those of the beginning stay.
      for (const params of parts(paramsOf(run.config), PARAMS)) {
        await this.#post("runs/log-batch", { run_id, params }, z.unknown(), options);
      }
    }
    this.#runId = run_id;
  }

  /** Logs points. */
  async write(points: readonly MetricPoint[], options: AbortOptions): Promise<void> {
    const metrics = points.map(({ name, value, step, time }) => ({
      // Other characters are refused, with all that came along.
      key: name.replaceAll(/[^\w./ -]/g, "_"),
      value,
      step,
      timestamp: Math.round(time),
    }));
    for (const part of parts(metrics, METRICS)) {
      await this.#post("runs/log-batch", { run_id: this.#runId, metrics: part }, z.unknown(), options);
    }
  }

  /** Says how the run ended, and closes the connection. */
  async end(outcome: RunOutcome, options: AbortOptions): Promise<void> {
    try {
      if (this.#runId !== undefined) {
        const update = { run_id: this.#runId, status: STATUS[outcome], end_time: Date.now() };
        await this.#post("runs/update", update, z.unknown(), options);
      }
    } finally {
      await this.#target.dispatcher.destroy();
    }
  }

  async #experimentId(options: AbortOptions): Promise<string> {
    const name = this.#experiment;
    const filter = `name = '${name}'`;
    const { experiments } = await this.#post(
      "experiments/search",
      { filter, max_results: 1 },
      Experiments,
      options,
    );
    const found = experiments.find((experiment) => experiment.name === name)?.experiment_id;
    return found ?? (await this.#post("experiments/create", { name }, Experiment, options)).experiment_id;
  }

  async #post<Schema extends z.ZodType>(
    path: string,
    body: unknown,
    schema: Schema,
    { signal = new AbortController().signal }: AbortOptions,
  ): Promise<z.output<Schema>> {
    const url = `${this.#target.url.replace(/\/+$/, "")}/api/2.0/mlflow/${path}`;
    const answer = schema.safeParse(await postJson({ ...this.#target, url }, body, signal));
    if (answer.success) return answer.data;
    throw new AttemptError(`the answer to ${path} is not what MLflow answers`, { retryable: false });
  }
}

/** Settings by their paths, e.g. `distillation.term.weight`; `null` is left out. */
function paramsOf(config: unknown, path = ""): { key: string; value: string }[] {
  if (config === null || config === undefined) return [];
  if (typeof config === "object" && !Array.isArray(config)) {
    return Object.entries(config).flatMap(([key, value]) =>
      paramsOf(value, path === "" ? key : `${path}.${key}`),
    );
  }
  const text = typeof config === "string" ? config : JSON.stringify(config);
  return [{ key: path, value: text.slice(0, PARAM_CHARACTERS) }];
}

function parts<T>(list: readonly T[], size: number): T[][] {
  const count = Math.ceil(list.length / size);
  return Array.from({ length: count }, (_, i) => list.slice(i * size, (i + 1) * size));
}

import type { ServerResponse } from "node:http";
import { z } from "zod";
import { type ReceivedRequest, sendJson } from "../../support/loopback-server.js";

/** Shapes and limits of MLflow's REST interface 2.0, as its documentation gives them; anything else is refused as there. */
const shapes = {
  "experiments/search": z.strictObject({ filter: z.string(), max_results: z.int().min(1) }),
  "experiments/create": z.strictObject({ name: z.string().min(1) }),
  "runs/search": z.strictObject({
    experiment_ids: z.array(z.string()),
    filter: z.string(),
    max_results: z.int().min(1),
  }),
  "runs/create": z.strictObject({
    experiment_id: z.string(),
    run_name: z.string(),
    start_time: z.int(),
    tags: z.array(z.strictObject({ key: z.string(), value: z.string().max(5_000) })),
  }),
  "runs/update": z.strictObject({
    run_id: z.string(),
    status: z.enum(["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]),
    end_time: z.int().optional(),
  }),
  "runs/log-batch": z.strictObject({
    run_id: z.string(),
    metrics: z
      .array(
        z.strictObject({
          key: z
            .string()
            .max(250)
            .regex(/^[\w./ -]+$/),
          value: z.number(),
          timestamp: z.int(),
          step: z.int(),
        }),
      )
      .max(1_000)
      .optional(),
    params: z
      .array(z.strictObject({ key: z.string().max(255), value: z.string().max(6_000) }))
      .max(100)
      .optional(),
  }),
};

interface StoredRun {
  experiment: string;
  name: string;
  status: string;
  tags: Map<string, string>;
  params: Map<string, string>;
  metrics: { key: string; value: number; step: number; timestamp: number }[];
}

/** A tracking server in memory. */
export class MlflowServer {
  readonly experiments = new Map<string, string>();
  readonly runs = new Map<string, StoredRun>();

  handle = (request: ReceivedRequest, response: ServerResponse): void => {
    const path = request.path.replace(/^\/api\/2\.0\/mlflow\//, "") as keyof typeof shapes;
    const refuse = (error_code: string, message: string) =>
      sendJson(response, { error_code, message }, error_code === "RESOURCE_DOES_NOT_EXIST" ? 404 : 400);
    const parsed = shapes[path]?.safeParse(request.body);
    const answer = parsed?.success ? this.#answer(path, request.body) : undefined;
    if (request.method !== "POST" || parsed === undefined) refuse("ENDPOINT_NOT_FOUND", request.path);
    else if (!parsed.success) refuse("INVALID_PARAMETER_VALUE", parsed.error.message);
    else if (answer === undefined) refuse("RESOURCE_DOES_NOT_EXIST", path);
    else sendJson(response, answer);
  };

  // biome-ignore lint/suspicious/noExplicitAny: the shape was checked
  #answer(path: keyof typeof shapes, body: any): unknown {
    const run = this.runs.get(body.run_id);
    switch (path) {
      case "experiments/search": {
        const name = /^name = '(.*)'$/.exec(body.filter)?.[1];
        const found = [...this.experiments].filter(([, known]) => known === name);
        // Nothing found is an empty object: protocol buffers leave out empty lists.
        return found.length === 0
          ? {}
          : { experiments: found.map(([experiment_id, name]) => ({ experiment_id, name })) };
      }
      case "experiments/create":
        this.experiments.set(`${this.experiments.size + 1}`, body.name);
        return { experiment_id: `${this.experiments.size}` };
      case "runs/search": {
        const [, key = "", value] = /^tags\."(.*)" = '(.*)'$/.exec(body.filter) ?? [];
        const found = [...this.runs].filter(
          ([, { experiment, tags }]) => body.experiment_ids.includes(experiment) && tags.get(key) === value,
        );
        return found.length === 0 ? {} : { runs: found.map(([run_id]) => ({ info: { run_id }, data: {} })) };
      }
      case "runs/create": {
        const run_id = `run-${this.runs.size + 1}`;
        const tags = new Map<string, string>();
        for (const tag of body.tags) tags.set(tag.key, tag.value);
        this.runs.set(run_id, {
          ...{ experiment: body.experiment_id, name: body.run_name, status: "RUNNING" },
          ...{ tags, params: new Map(), metrics: [] },
        });
        return { run: { info: { run_id, status: "RUNNING" }, data: {} } };
      }
      case "runs/update":
        if (run) run.status = body.status;
        return run && { run_info: { run_id: body.run_id } };
      case "runs/log-batch":
        for (const { key, value } of body.params ?? []) run?.params.set(key, value);
        run?.metrics.push(...(body.metrics ?? []));
        return run && {};
    }
  }
}

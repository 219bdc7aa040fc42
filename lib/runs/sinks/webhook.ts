import { z } from "zod";
import type { AbortOptions } from "../../abort.js";
import { parseOptions } from "../../network/options.js";
import { deliverJson, type PostTarget } from "../../network/post-json.js";
import { Scrubber } from "../../network/secrets.js";
import { type HttpSinkOptions, httpSinkShape, sinkTarget } from "./http-target.js";
import type { MetricPoint, MetricSink, RunOutcome, SinkRun } from "./metric-sink.js";

/** Options of {@link WebhookSink}. */
export interface WebhookSinkOptions extends HttpSinkOptions {
  /** Where to post; http or https. */
  url: string;
}

const Options = z.strictObject(httpSinkShape);

/**
 * Posts JSON to an address of yours, which answers any 2xx status:
 *
 * - `{ event: "start", run: { id, name, step }, config }`
 * - `{ event: "metrics", run, points: [{ name, value, step, time }] }`
 * - `{ event: "end", run, outcome }`
 *
 * The key is `apiKey`, else `HINDSEARCH_WEBHOOK_API_KEY`.
 */
export class WebhookSink implements MetricSink {
  /** For messages. */
  readonly name: string;
  readonly #target: PostTarget;
  #run: Pick<SinkRun, "id" | "name" | "step"> | undefined;

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor(options: WebhookSinkOptions) {
    const parsed = parseOptions(Options, options, "WebhookSink");
    const { origin, pathname } = new URL(parsed.url);
    this.name = `webhook at ${origin}`;
    const target = sinkTarget(parsed, "HINDSEARCH_WEBHOOK_API_KEY");
    // Many services have the key in the path.
    const scrubber = new Scrubber([...target.secrets, pathname, ...pathname.split("/")]);
    this.#target = { ...target, scrubber };
  }

  /** Posts that a run begins. */
  async start({ id, name, step, config }: SinkRun, options: AbortOptions): Promise<void> {
    const run = { id, name, step };
    await this.#post({ event: "start", run, config }, options);
    this.#run = run;
  }

  /** Posts points. */
  async write(points: readonly MetricPoint[], options: AbortOptions): Promise<void> {
    await this.#post({ event: "metrics", run: this.#run, points }, options);
  }

  /** Posts that the run has ended, and closes the connection. */
  async end(outcome: RunOutcome, options: AbortOptions): Promise<void> {
    try {
      if (this.#run) await this.#post({ event: "end", run: this.#run, outcome }, options);
    } finally {
      await this.#target.dispatcher.destroy();
    }
  }

  #post(body: unknown, { signal }: AbortOptions): Promise<void> {
    return deliverJson(this.#target, body, signal ?? new AbortController().signal);
  }
}

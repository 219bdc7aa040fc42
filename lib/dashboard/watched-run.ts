import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { HindsearchError } from "../errors.js";
import { RunDirectory } from "../runs/run.js";
import { numberAt, valueAt } from "./measures.js";
import type { RunCurves, RunSummary, TrajectoryView } from "./messages.js";
import type { FoundRun } from "./run-finder.js";
import { RunMetrics } from "./run-metrics.js";
import { TrajectoryIndex } from "./trajectory-index.js";
import { trajectoryView } from "./trajectory-view.js";
import { signalVerdict } from "./verdict.js";

/** A run that grew this recently, and has steps to do, is live. */
const LIVE_SECONDS = 60;

/** A run folder, read on as it grows. Nothing is ever written to it. */
export class WatchedRun {
  readonly id: string;
  readonly #folder: string;
  readonly #config: unknown;
  readonly #metrics: RunMetrics;
  readonly #trajectories: TrajectoryIndex;
  #touched = 0;
  /** Of everything but the seed. */
  readonly #settings: string;
  /** What is wrong with the settings; they are read once. */
  readonly #settingsProblem: string | undefined;
  #problem: string | undefined;

  private constructor({ id, folder }: FoundRun, config: unknown, problem: string | undefined) {
    this.id = id;
    this.#folder = folder;
    this.#config = config;
    this.#settings = settingsHash(config) ?? id;
    this.#settingsProblem = problem;
    this.#metrics = new RunMetrics(join(folder, "metrics.jsonl"));
    this.#trajectories = new TrajectoryIndex(
      join(folder, "trajectories.jsonl"),
      numberAt(config, "successThreshold") ?? 0.5,
    );
  }

  /** What is wrong with it is a problem of its summary. */
  static async open(found: FoundRun): Promise<WatchedRun> {
    try {
      const run = await RunDirectory.open(found.folder);
      return new WatchedRun(found, await run.config(), undefined);
    } catch (error) {
      const { message } = error as Error;
      const problem =
        error instanceof HindsearchError ? message : `config.json holds no settings: ${message}.`;
      return new WatchedRun(found, null, problem);
    }
  }

  /** Its index. */
  get trajectories(): TrajectoryIndex {
    return this.#trajectories;
  }

  /** Its metrics. */
  get metrics(): RunMetrics {
    return this.#metrics;
  }

  /** The settings as text. */
  get config(): string {
    return JSON.stringify(this.#config, null, 2);
  }

  /** Reads new metrics, and begins to index new trajectories if it is not at it. */
  async refresh(signal?: AbortSignal): Promise<void> {
    const times = await Promise.all(
      ["metrics.jsonl", "trajectories.jsonl", "config.json"].map((name) =>
        stat(join(this.#folder, name)).then(
          ({ mtimeMs }) => mtimeMs,
          () => 0,
        ),
      ),
    );
    this.#touched = Math.max(...times);
    try {
      await this.#metrics.update(signal);
      this.#problem = undefined;
    } catch (error) {
      if (signal?.aborted) throw error;
      this.#problem = (error as Error).message;
    }
  }

  /** For the overview. */
  summary(): RunSummary {
    const { steps, measures } = this.#metrics;
    const config = this.#config;
    const total = numberAt(config, "steps");
    const stepsDone = (steps.at(-1) ?? -1) + 1;
    const idleSeconds = Math.max(0, Math.round((Date.now() - this.#touched) / 1000));
    const { broken, leftOut } = this.#metrics;
    return {
      id: this.id,
      stepsDone,
      steps: total,
      idleSeconds,
      live: idleSeconds < LIVE_SECONDS && (total === null || stepsDone < total),
      milliseconds: 1000 * measures.stepSeconds.reduce<number>((sum, value) => sum + (value ?? 0), 0),
      method: methodOf(config),
      policy: words(valueAt(config, "participants.policy")),
      seed: words(numberAt(config, "seed")),
      settings: this.#settings,
      reward: measures.reward.filter((value) => value !== null).at(-1) ?? null,
      exactMatch: this.#metrics.evaluations().map(({ mode, exactMatch, low, high }) => ({
        mode,
        first: exactMatch[0] ?? null,
        last: exactMatch.at(-1) ?? null,
        low: low.at(-1) ?? null,
        high: high.at(-1) ?? null,
      })),
      verdict: signalVerdict(measures),
      problems: [
        this.#settingsProblem,
        this.#problem,
        broken === 0 ? undefined : `${broken} of the lines of metrics.jsonl are no records`,
        leftOut === 0 ? undefined : `${leftOut} records of metrics.jsonl are more than are shown`,
      ].filter((problem) => problem !== undefined),
      revision: String(this.#metrics.revision),
    };
  }

  /** Its curves. */
  curves(): RunCurves {
    const { steps, measures, revision } = this.#metrics;
    return {
      run: this.id,
      revision: String(revision),
      steps: [...steps],
      measures,
      evaluations: this.#metrics.evaluations(),
    };
  }

  /**
   * One trajectory. If the index does not have it yet, what is left of the file is read first.
   *
   * @returns `undefined` if there is none of that id.
   * @throws {@link HindsearchError} `INVALID_DATA` if its line is damaged or was moved, `IO`.
   */
  async trajectory(id: string): Promise<TrajectoryView | undefined> {
    let found = await this.#lineOf(id);
    if (found === undefined) {
      await this.#trajectories.update();
      found = await this.#lineOf(id);
    }
    return found && trajectoryView(found.json, found.row, this.#trajectories.siblings(id));
  }

  async #lineOf(id: string) {
    try {
      return await this.#trajectories.line(id);
    } catch (error) {
      if (!(error instanceof HindsearchError) || error.code !== "INVALID_DATA") throw error;
      // The run resumed and rewrote the file.
      await this.#trajectories.update();
      return this.#trajectories.line(id);
    }
  }
}

function settingsHash(config: unknown): string | undefined {
  if (typeof config !== "object" || config === null) return undefined;
  const text = JSON.stringify({ ...config, seed: undefined });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** A term without weight is measured and trains nothing. */
function methodOf(config: unknown): string {
  const distillation = valueAt(config, "distillation");
  if (distillation === undefined) return "";
  return distillation === null || numberAt(distillation, "term.weight") === 0 ? "GRPO" : "HindSearch";
}

function words(value: unknown): string {
  return typeof value === "string" ? value.slice(0, 200) : typeof value === "number" ? String(value) : "";
}

import { randomUUID } from "node:crypto";
import { basename, resolve } from "node:path";
import { throwIfAborted } from "../abort.js";
import type { QuestionSampler } from "../data/sampler.js";
import { HindsearchError } from "../errors.js";
import type { Policy } from "../policy/policy.js";
import type { CheckpointFolder } from "../runs/checkpoints.js";
import { redactSecrets } from "../runs/redact.js";
import { RunDirectory } from "../runs/run.js";
import type { RunOutcome } from "../runs/sinks/metric-sink.js";
import { MetricSinks } from "../runs/sinks/sinks.js";
import type { HindSearchOptions } from "./options.js";
import {
  evaluationRecord,
  recordStep,
  type StepMetrics,
  stepRecord,
  type TrainingEvaluation,
} from "./record.js";
import { compareSettings } from "./run-settings.js";
import type { TrainingSample } from "./samples.js";
import type { TrainerSettings } from "./settings.js";
import {
  checkFingerprint,
  fingerprintOf,
  loadWeights,
  readTrainerState,
  saveTrainer,
  type TrainerState,
} from "./trainer-state.js";
import type { RecordDetails } from "./trajectory-record.js";

/** What is kept of a training: its records and checkpoints, in a run folder if it has one. */
export class TrainingRun {
  private constructor(
    private readonly options: HindSearchOptions,
    private readonly settings: TrainerSettings,
    private readonly warn: (warning: string) => void,
    private readonly directory: RunDirectory | undefined,
  ) {}

  #sinks: MetricSinks | undefined;

  /**
   * Creates the run folder, or opens the one to go on with, and locks it.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the folder holds a run and is not to be gone on with; `RUN_LOCKED`,
   * `RUN_MISMATCH`, `IO`, `ABORTED`.
   */
  static async open(
    options: HindSearchOptions,
    settings: TrainerSettings,
    warn: (warning: string) => void,
  ): Promise<TrainingRun> {
    const { runFolder, resume = false, signal } = options;
    throwIfAborted(signal);
    if (runFolder === undefined) return new TrainingRun(options, settings, warn, undefined);
    if (resume === false || !(await RunDirectory.exists(runFolder))) {
      const created = await RunDirectory.create(runFolder, settings, warn, { signal });
      return new TrainingRun(options, settings, warn, created);
    }
    const directory = await RunDirectory.open(runFolder, warn);
    await directory.lock({ signal });
    return new TrainingRun(options, settings, warn, directory);
  }

  /**
   * Where the training begins: anew, or at the latest checkpoint, which is read into the policy. Records of later steps are
   * dropped. Whatever is refused is refused before anything is changed.
   *
   * @param frozen - The initial policy, if the run needs it.
   * @throws {@link HindsearchError} `RUN_MISMATCH`, `INVALID_CHECKPOINT`, `IO`, `ABORTED`.
   */
  async start(questions: QuestionSampler, frozen: Policy | undefined): Promise<TrainerState> {
    const state = await this.#startState(questions, frozen);
    this.#startSinks(state.step);
    return state;
  }

  async #startState(questions: QuestionSampler, frozen: Policy | undefined): Promise<TrainerState> {
    const { directory } = this;
    const { policy, resume = false, signal } = this.options;
    const fingerprint = frozen && directory ? await fingerprintOf(frozen) : null;
    const none = { judge: null, retriever: null };
    const anew = { step: 0, cursor: questions.cursor, skippedInARow: 0, fingerprint, ...none };
    if (directory === undefined || resume === false) return anew;
    const changes = await compareSettings(directory, this.settings, resume === "with-other-settings");
    const latest = await directory.checkpoints.latest();
    const state = latest && (await readTrainerState(latest));
    if (latest && state) {
      checkFingerprint(state.fingerprint, fingerprint);
      questions.restore(state.cursor);
      await loadWeights(latest, policy, { signal });
      for (const name of ["judge", "retriever"] as const) {
        const isOther = changes.some(({ path }) => `${path}.`.startsWith(`participants.${name}.`));
        if (!isOther) this.#restore(name, state[name]);
      }
    }
    if (changes.length > 0) {
      this.warn(
        `The run goes on with other settings than before: ${changes.map(({ text }) => text).join("; ")}.`,
      );
      await directory.writeConfig(this.settings, state?.step ?? 0);
    }
    await directory.rewind(state?.step ?? 0);
    return state ? { ...state, fingerprint } : anew;
  }

  /** Gives a participant that is the one from before what it needs. */
  #restore(name: "judge" | "retriever", state: unknown): void {
    if (state === null) return;
    try {
      this.options[name]?.restore?.(state);
    } catch (error) {
      if (!(error instanceof HindsearchError)) throw error;
      this.warn(
        `The ${name} does not go on from the checkpoint, so its budget and figures begin anew: ${error.message}`,
      );
    }
  }

  #startSinks(step: number): void {
    const { sinks = [] } = this.options;
    if (sinks.length === 0) return;
    const id = this.directory?.id ?? randomUUID();
    const folder = this.directory && resolve(this.directory.folder);
    const name = folder === undefined ? id : basename(folder);
    const config = redactSecrets(this.settings);
    this.#sinks = new MetricSinks(sinks, { id, name, folder, step, config }, this.warn);
  }

  /** Logs a step. */
  async recordStep(
    metrics: StepMetrics,
    groups: readonly (readonly TrainingSample[])[],
    details: RecordDetails,
  ): Promise<void> {
    if (this.directory) await recordStep(this.directory, metrics, groups, details);
    this.#sinks?.push(stepRecord(metrics));
  }

  /** Logs an evaluation that belongs to a training step. */
  async recordEvaluation(step: number, evaluation: TrainingEvaluation): Promise<void> {
    const record = evaluationRecord(step, evaluation);
    await this.directory?.append("metrics", [record]);
    this.#sinks?.push(record);
  }

  /**
   * Writes a checkpoint if one is due: by its step, or because the evaluation at it is the best so far, or because it is the
   * last one of a run that is to end.
   */
  async checkpoint(
    state: TrainerState,
    evaluations: readonly TrainingEvaluation[],
    finishing: () => boolean,
  ): Promise<CheckpointFolder | undefined> {
    const { directory } = this;
    const { steps, checkpointEvery, keepCheckpoints, keepBest } = this.settings;
    if (directory === undefined || (checkpointEvery === 0 && !finishing())) return undefined;
    const evaluation = evaluations.find(({ stepsDone }) => stepsDone === state.step);
    const score = keepBest === null ? undefined : evaluation?.report[keepBest];
    const due = finishing() || state.step % checkpointEvery === 0 || state.step === steps;
    if (!due && !(await this.#isBest(directory, score))) return undefined;
    const { policy, signal } = this.options;
    const { judge, retriever } = this.options;
    const parts = { judge: judge?.state?.() ?? null, retriever: retriever.state?.() ?? null };
    const write = (folder: string) => saveTrainer(folder, policy, { ...state, ...parts }, { signal });
    const written = await directory.checkpoint(state.step, write, score);
    await directory.checkpoints.prune(keepCheckpoints);
    return written;
  }

  /** Lets go of the run folder, and gives the sinks a few seconds for what they have not taken yet. */
  async close(outcome: RunOutcome): Promise<void> {
    try {
      await this.#sinks?.end(outcome);
    } finally {
      await this.directory?.close();
    }
  }

  async #isBest({ checkpoints }: RunDirectory, score: number | undefined): Promise<boolean> {
    if (score === undefined) return false;
    const scores = (await checkpoints.list()).map(
      (checkpoint) => checkpoint.score ?? Number.NEGATIVE_INFINITY,
    );
    return score > Math.max(...scores);
  }
}

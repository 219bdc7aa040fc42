import { throwIfAborted } from "../abort.js";
import { BoundProtocol } from "../agent/bound-protocol.js";
import { searchR1 } from "../agent/protocol.js";
import type { Question } from "../data/question.js";
import { QuestionSampler } from "../data/sampler.js";
import { HindsearchError } from "../errors.js";
import { evaluate } from "../evaluation/evaluate.js";
import type { Decoder } from "../policy/decoder.js";
import type { MemoryEstimate } from "../policy/memory/report.js";
import type { Policy } from "../policy/policy.js";
import { exactMatchReward, type Reward } from "../reward/reward.js";
import type { RunOutcome } from "../runs/sinks/metric-sink.js";
import { emitWarning } from "../warning.js";
import { checkOptions } from "./check-options.js";
import { requireTraining, trainerEstimate } from "./memory.js";
import type { EvaluationMode, HindSearchOptions } from "./options.js";
import { runPlan } from "./plan.js";
import type { TrainingEvaluation, TrainingStepResult } from "./record.js";
import { needsTeacher, resolveSettings, type TrainerSettings } from "./settings.js";
import { type StepContext, trainingStep } from "./step.js";
import type { TrainerState } from "./trainer-state.js";
import { TrainingRun } from "./training-run.js";
import { countSkipped } from "./update.js";

/**
 * Trains a policy to search: GRPO on rollouts with the search engine in the loop, plus the HindSearch term
 * (arXiv:2608.01597). Without a judge, or with `distillation: false`, it is plain GRPO.
 *
 * It is iterated over, one typed result per training step, and does nothing between two of them. The policy is changed
 * in place. With a `runFolder`, `N steps = k steps, a kill, resume, N - k steps`, bit for bit (the judge permitting).
 *
 * @example
 * ```ts
 * const trainer = new HindSearchTrainer({ policy, retriever, judge, questions, steps: 300 });
 * for await (const { step, metrics } of trainer) console.log(step, metrics.rollout.reward);
 * ```
 */
export class HindSearchTrainer implements AsyncIterable<TrainingStepResult> {
  /** All numbers and switches with their defaults filled in. */
  readonly settings: TrainerSettings;
  readonly #options: HindSearchOptions;
  readonly #protocol: BoundProtocol;
  readonly #reward: Reward;
  #running = false;

  /**
   * @param options - See {@link HindSearchOptions}.
   * @throws {@link HindsearchError} `INVALID_ARGUMENT`: values out of range, sampling that cannot be trained with, options
   * without effect, evaluation questions among the training questions.
   */
  constructor(options: HindSearchOptions) {
    checkOptions(options);
    this.settings = resolveSettings(options);
    this.#options = options;
    this.#protocol = new BoundProtocol(options.protocol ?? searchR1(), options.policy);
    this.#reward = options.reward ?? exactMatchReward();
    refuseLeaks(options.questions, options.evaluation?.questions ?? []);
    const { maxTokens } = this.#protocol.protocol;
    const { maxPositions } = options.policy.config;
    if (maxTokens > maxPositions) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `The protocol's maxTokens is ${maxTokens}, but the model has ${maxPositions} positions. Give a protocol with ` +
          "maxTokens of at most that many.",
      );
    }
    if (options.resume && options.runFolder === undefined) {
      throw new HindsearchError("INVALID_ARGUMENT", "resume needs the runFolder of the run to go on with.");
    }
  }

  /** What will be computed by which weights, in words. */
  plan(): string {
    return runPlan(this.#options, this.settings, this.#reward);
  }

  /** What the run will need, by part and by phase; for people by `formatEstimate`. */
  memory(): MemoryEstimate {
    return trainerEstimate(this.#options, this.settings);
  }

  /**
   * Runs the steps. Ending the loop early releases what the trainer holds; the policy keeps its weights.
   *
   * @throws {@link HindsearchError} `ABORTED`; `LOG_PROB_MISMATCH` from the check at the start; `RETRIEVAL_FAILED` in an
   * outage; `NON_FINITE`; `IO`, `RUN_LOCKED`, `RUN_MISMATCH`, `INVALID_CHECKPOINT` around the run folder; `INVALID_ARGUMENT` if
   * it is running already;
   * `OUT_OF_MEMORY`, before anything is allocated if it is foreseen (`memoryLimit`).
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<TrainingStepResult, void> {
    if (this.#running) {
      throw new HindsearchError("INVALID_ARGUMENT", "This trainer is running already; make another one.");
    }
    this.#running = true;
    const { policy, signal, memoryLimit } = this.#options;
    let run: TrainingRun | undefined;
    // What it is unless something else happens: the caller's loop may end at any yield.
    let outcome: RunOutcome = "stopped";
    let frozen: Policy | undefined;
    let decoder: Decoder | undefined;
    try {
      throwIfAborted(signal);
      await requireTraining(policy, this.memory(), memoryLimit);
      run = await TrainingRun.open(this.#options, this.settings, (warning) => this.#warn(warning));
      frozen = needsTeacher(this.settings) ? await policy.snapshot() : undefined;
      const questions = new QuestionSampler(this.#options.questions, { seed: this.settings.seed });
      const state = await run.start(questions, frozen);
      decoder = await policy.createDecoder(this.#decoderOptions());
      const stepsDone = yield* this.#steps(state, { run, frozen, decoder, questions });
      if (stepsDone >= this.settings.steps) outcome = "finished";
    } catch (error) {
      outcome = signal?.aborted ? "stopped" : "failed";
      throw error;
    } finally {
      decoder?.dispose();
      frozen?.dispose();
      await run?.close(outcome);
      this.#running = false;
    }
  }

  /**
   * Evaluates the policy as it is now.
   *
   * @param mode - How to decode.
   * @param decoder - Of the policy; one is made if there is none.
   * @param step - For `onProgress`.
   */
  async evaluate(mode: EvaluationMode, decoder?: Decoder, step = 0) {
    const { evaluation, policy, retriever, signal, onProgress, onWarning } = this.#options;
    if (evaluation === undefined) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        "This trainer has no evaluation questions; give `evaluation`.",
      );
    }
    const own = decoder === undefined ? await policy.createDecoder(this.#decoderOptions()) : undefined;
    try {
      return await evaluate({
        ...this.settings.search,
        decoder: decoder ?? (own as Decoder),
        retriever: evaluation.retriever ?? retriever,
        protocol: this.#protocol,
        questions: evaluation.questions,
        sampling: mode === "greedy" ? { temperature: 0 } : this.settings.sampling,
        seed: this.settings.seed,
        ...(evaluation.corpus !== undefined && { corpus: evaluation.corpus }),
        ...(onProgress && {
          onProgress: (progress) => onProgress({ step, phase: "evaluation", ...progress }),
        }),
        signal,
        onWarning,
      });
    } finally {
      own?.dispose();
    }
  }

  #decoderOptions() {
    const { decoder, memoryLimit } = this.#options;
    return { ...decoder, ...(memoryLimit !== undefined && { memoryLimit }) };
  }

  async *#steps(
    start: TrainerState,
    parts: Pick<StepContext, "run" | "frozen" | "decoder" | "questions">,
  ): AsyncGenerator<TrainingStepResult, number> {
    const { run, decoder, questions } = parts;
    const { steps, startupCheck, maxSkippedUpdates } = this.settings;
    let { skippedInARow } = start;
    let unsaved: TrainerState | undefined;
    const finishing = () => this.#options.finish?.aborted === true;
    let { step } = start;
    for (; step < steps && !finishing(); step++) {
      const evaluations = step === 0 ? await this.#evaluateAt(0, step, decoder, run) : [];
      const checked = step === start.step ? startupCheck.trajectories : 0;
      const result = await trainingStep(this.#context({ ...parts, checked }, step), step);
      if (step === start.step) this.#checkFirst(result);
      skippedInARow = countSkipped(skippedInARow, result.metrics.updates, maxSkippedUpdates);
      evaluations.push(...(await this.#evaluateAt(step + 1, step, decoder, run)));
      const state = { ...start, step: step + 1, cursor: questions.cursor, skippedInARow };
      const checkpoint = await run.checkpoint(state, evaluations, finishing);
      unsaved = checkpoint === undefined ? state : undefined;
      yield { ...result, evaluations, ...(checkpoint && { checkpoint }) };
    }
    // It may have been asked to end while the step was being looked at.
    if (unsaved !== undefined && finishing()) await run.checkpoint(unsaved, [], finishing);
    return step;
  }

  #context(
    parts: Pick<StepContext, "run" | "frozen" | "decoder" | "questions" | "checked">,
    step: number,
  ): StepContext {
    const { policy, retriever, judge, signal, onProgress, onWarning } = this.#options;
    return {
      ...parts,
      policy,
      retriever,
      judge,
      protocol: this.#protocol,
      reward: this.#reward,
      settings: this.settings,
      signal,
      onWarning,
      ...(onProgress && { onProgress: (progress) => onProgress({ ...progress, step }) }),
    };
  }

  async #evaluateAt(
    stepsDone: number,
    step: number,
    decoder: Decoder,
    run: TrainingRun,
  ): Promise<TrainingEvaluation[]> {
    const { steps, evaluateEvery, evaluationModes } = this.settings;
    const due = stepsDone % evaluateEvery === 0 || stepsDone === steps;
    if (this.#options.evaluation === undefined || !due) return [];
    const evaluations: TrainingEvaluation[] = [];
    for (const mode of evaluationModes) {
      const evaluation = { stepsDone, mode, report: await this.evaluate(mode, decoder, step) };
      await run.recordEvaluation(step, evaluation);
      evaluations.push(evaluation);
    }
    return evaluations;
  }

  /** What the first batch tells of a run that would be in vain. */
  #checkFirst({ groups, metrics }: TrainingStepResult): void {
    const { answered } = metrics.rollout.statuses;
    if (answered > 0 || groups.length === 0) return;
    const { tags, maxTokens } = this.#protocol.protocol;
    const trajectories = groups.flat().map(({ trajectory }) => trajectory);
    const longest = Math.max(...trajectories.map(({ promptTokens }) => promptTokens.length));
    const why = trajectories.every(({ tokens }) => tokens.length === 0)
      ? `No trajectory of the first batch has a token: prompts have up to ${longest} tokens, and prompt and trajectory ` +
        `together may have ${maxTokens} (the protocol's maxTokens). Set it higher, or make the prompt shorter.`
      : `No trajectory of the first batch answered between ${tags.answer.open} and ${tags.answer.close}. Does the prompt ` +
        "ask for these tags, and are the length limits wide enough?";
    this.#warn(`${why} Without answers there is no reward.`);
  }

  #warn(message: string): void {
    (this.#options.onWarning ?? emitWarning)(message);
  }
}

/** Gold answers of evaluation questions must not reach the judge, and what was trained on is no test. */
function refuseLeaks(training: readonly Question[], evaluation: readonly Question[]): void {
  const key = ({ question }: Question) => question.trim().toLowerCase();
  const seen = new Set(training.map(key));
  const leaked = evaluation.filter((question) => seen.has(key(question)));
  if (leaked.length === 0) return;
  throw new HindsearchError(
    "INVALID_ARGUMENT",
    `${leaked.length} of ${evaluation.length} evaluation questions are among the training questions, the first is ` +
      `"${leaked[0]?.question}". Take them out of one of the two sets: their gold answers would reach the judge, and the ` +
      "score would say nothing.",
  );
}

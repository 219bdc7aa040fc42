import type { AbortOptions } from "../abort.js";
import type { Question } from "../data/question.js";
import { loadQuestions, type QuestionsOptions } from "../data/questions.js";
import { HindsearchError } from "../errors.js";
import type { Judge } from "../judge/judge.js";
import type { Policy } from "../policy/policy.js";
import { recordedJudge } from "../replay/recorded-judge.js";
import { recordedRetriever } from "../replay/recorded-retriever.js";
import { ReplayCache } from "../replay/replay-cache.js";
import type { Retriever } from "../retrieval/retriever.js";
import type { EvaluationOptions, HindSearchOptions } from "../training/options.js";
import { HindSearchTrainer } from "../training/trainer.js";
import { defined } from "./defined.js";
import { Held } from "./held.js";
import { OpenJudge } from "./open-judge.js";
import { openPolicy } from "./open-policy.js";
import { OpenRetriever } from "./open-retriever.js";
import { openSinks } from "./open-sinks.js";
import type { ReadConfiguration } from "./read.js";
import { trainerOptions } from "./trainer-options.js";

/** How a training is watched and ended. */
export type TrainingWatch = Pick<
  HindSearchOptions,
  "resume" | "signal" | "finish" | "onProgress" | "onWarning"
>;

/** A training as a configuration says it: the trainer, and everything that it uses. */
export class OpenTraining implements AsyncDisposable {
  readonly #held: Held;

  private constructor(
    /** Runs the steps. */
    readonly trainer: HindSearchTrainer,
    /** Is trained. */
    readonly policy: Policy,
    held: Held,
  ) {
    this.#held = held;
  }

  /**
   * Opens model, questions, retriever and judge, and makes the trainer.
   *
   * @throws {@link HindsearchError} What opening any of them throws. Nothing stays open then.
   */
  static async open(configuration: ReadConfiguration, watch: TrainingWatch): Promise<OpenTraining> {
    const held = new Held();
    try {
      const { signal } = watch;
      const questions = await questionsOf(configuration, "data", { signal });
      const evaluation = await evaluationOf(configuration, held, { signal });
      const opened = await openRetriever(configuration, { signal });
      const { retriever } = held.add(opened);
      const policy = held.add(await openPolicy(configuration, { signal }));
      const judging = await OpenJudge.open(configuration, policy, { signal });
      const { judge } = held.add(judging);
      const recorded = withRecords(configuration, retriever, judge);
      const options = trainerOptions(configuration, {
        ...watch,
        ...recorded,
        sinks: openSinks(configuration),
        policy,
        questions,
        ...(evaluation && { evaluation }),
      });
      return new OpenTraining(new HindSearchTrainer(options), policy, held);
    } catch (error) {
      await held.release();
      throw error;
    }
  }

  /** Gives back connections, files and memory. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#held.release();
  }
}

/**
 * Questions of a configuration: those to train on, or those to evaluate on, if there are any.
 *
 * @param options - `limit` wins over the configured one.
 * @throws {@link HindsearchError} What `loadQuestions` throws; of a file that cannot be read, where it is named.
 */
export async function questionsOf(
  configuration: ReadConfiguration,
  section: "data" | "evaluation",
  options: QuestionsOptions,
): Promise<Question[]> {
  const { questions, limit } = configuration.values[section] ?? {};
  if (questions === undefined) return [];
  try {
    return await loadQuestions(configuration.resolve(questions), { ...defined({ limit }), ...options });
  } catch (error) {
    if (!(error instanceof HindsearchError) || error.code !== "IO") throw error;
    const place = configuration.place([section, "questions"]);
    throw new HindsearchError("IO", `${place}: ${error.message}`, { cause: error });
  }
}

/**
 * The retriever of a configuration: that of the training, or that of the evaluation, which is the same unless it has its own.
 *
 * @throws {@link HindsearchError} What opening it throws.
 */
export function openRetriever(
  configuration: ReadConfiguration,
  options: AbortOptions,
  use: "training" | "evaluation" = "training",
): Promise<OpenRetriever> {
  const { retriever, evaluation } = configuration.values;
  const own = use === "evaluation" ? evaluation?.retriever : undefined;
  configuration.requireVariables(own ? "evaluation" : "retriever");
  return OpenRetriever.open(own ?? retriever, (path) => configuration.resolve(path), options);
}

async function evaluationOf(
  configuration: ReadConfiguration,
  held: Held,
  options: AbortOptions,
): Promise<EvaluationOptions | undefined> {
  const { evaluation } = configuration.values;
  if (evaluation === undefined) return undefined;
  configuration.requireVariables("evaluation");
  const { every, modes, corpus, retriever } = evaluation;
  const opened = retriever && (await openRetriever(configuration, options, "evaluation"));
  if (opened) held.add(opened);
  return {
    questions: await questionsOf(configuration, "evaluation", options),
    every,
    modes,
    ...defined({ corpus, retriever: opened?.retriever }),
  };
}

/** Judge and retriever with a memory, where the configuration wants one. */
function withRecords(
  configuration: ReadConfiguration,
  retriever: Retriever,
  judge: Judge | undefined,
): { retriever: Retriever; judge?: Judge } {
  const { replay } = configuration.values;
  if (replay === undefined) return { retriever, ...(judge && { judge }) };
  configuration.requireVariables("replay");
  const { folder, mode, corpus } = replay;
  const cache = new ReplayCache({
    folder: configuration.resolve(folder),
    mode,
    secrets: configuration.secrets,
  });
  return {
    retriever: corpus === undefined ? retriever : recordedRetriever(retriever, cache, { identity: corpus }),
    ...(judge && { judge: recordedJudge(judge, cache) }),
  };
}

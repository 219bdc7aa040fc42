import type { AbortOptions } from "../abort.js";
import type { TokenScope } from "../agent/masks.js";
import type { SearchProtocol } from "../agent/protocol.js";
import type { SearchFailureOptions } from "../agent/search-options.js";
import type { Sampling } from "../agent/trajectory.js";
import type { Question } from "../data/question.js";
import type { Judge } from "../judge/judge.js";
import type { DistillTerm, KlTerm, PolicyTerm } from "../policy/objective.js";
import type { Policy } from "../policy/policy.js";
import type { DecoderOptions, MemoryOptions, StepOptions } from "../policy/policy-options.js";
import type { Retriever } from "../retrieval/retriever.js";
import type { Reward } from "../reward/reward.js";
import type { MetricSink } from "../runs/sinks/metric-sink.js";
import type { AdvantageOptions } from "./advantages.js";
import type { TrajectoryScope } from "./critiques.js";
import type { HintControl } from "./hints.js";
import type { TrainingProgress } from "./progress.js";
import type { LearningRateSchedule, WeightSchedule } from "./schedule.js";

/** The HindSearch term (arXiv:2608.01597) with its switches. */
export interface DistillationOptions extends DistillTerm {
  /** How the weight goes with the steps. Default constant. While it is 0 the judge is asked on measured steps only. */
  schedule?: WeightSchedule;
  /** Tokens that the term acts on. Default `search`: strictly inside the search tags. */
  tokenScope?: TokenScope;
  /** Trajectories that it acts on. Default `failed`. */
  trajectoryScope?: TrajectoryScope;
  /** Whether the judge is told the gold answers. Default true. */
  judgeSeesGold?: boolean;
  /** What the teacher is told. Default `real`: the critique. The others are controls. */
  hintControl?: HintControl;
  /**
   * Milliseconds that a step waits for critiques behind its rollout; those that are missing then count as failed. They are
   * asked for as soon as their trajectories have ended. Default 600,000.
   */
  judgeDeadline?: number;
  /**
   * Tokens of hint, prompt and trajectory that the teacher reads at most. A trajectory that needs more has no
   * distillation term and is counted; nothing is ever cut. Default: the model's positions.
   */
  maxTeacherTokens?: number;
}

/** Evaluation during training. Its questions must not be among the training questions. */
export interface EvaluationOptions {
  /** Never shown to the judge. */
  questions: readonly Question[];
  /** Evaluate before the first step, after every so many steps, and after the last. Default 50. */
  every?: number;
  /** Greedy decoding, sampling as in training, or both. Default `["greedy"]`. */
  modes?: readonly EvaluationMode[];
  /** Default: the training retriever. */
  retriever?: Retriever;
  /** Names corpus and engine in the reports, so that reports over others are not compared. Default `unnamed`. */
  corpus?: string;
}

/** How an evaluation decodes. */
export type EvaluationMode = "greedy" | "sampled";

/** Scores of an evaluation by which a checkpoint can be the best. */
export type BestScore = "exactMatch" | "f1" | "containment";

/** The check at the start of a run that the policy's own log-probs are those that it trains with. */
export interface StartupCheckOptions {
  /** Trajectories of the first rollout that are scored again. Default 8; 0 is off. */
  trajectories?: number;
  /**
   * Largest difference that is let pass, in nats. Default: on the CPU 0, bit for bit; on a GPU 0.25 in bf16 and 1e-4 in f32,
   * measured on a model of one alone (docs/gpu.md).
   */
  tolerance?: number;
}

/**
 * Options of `HindSearchTrainer`. Documented values of the paper are marked D; it leaves the others open, and they are
 * Search-R1's (arXiv:2503.09516).
 */
export interface HindSearchOptions extends AbortOptions, MemoryOptions {
  /** What is trained. At the start it is also the teacher and the KL reference: a frozen copy is kept of it. */
  policy: Policy;
  /** Searches. */
  retriever: Retriever;
  /** Training questions. */
  questions: readonly Question[];
  /** Training steps. D: 300. */
  steps: number;
  /** Critiques failed trajectories. Needed by the distillation term; without a judge this is plain GRPO. */
  judge?: Judge;
  /** Default `searchR1()`: 4 searches (D), 3 passages (D), turns and observations of 500 tokens, a context of 4096. */
  protocol?: SearchProtocol;
  /** Scores trajectories, but those whose search failed. Default: exact match with a gold answer, 1 or 0. D. */
  reward?: Reward;
  /** A trajectory with a lower reward failed. Default 0.5. */
  successThreshold?: number;
  /** Questions per step. Default 512. */
  questionsPerStep?: number;
  /** Trajectories per question, G. Default 5. */
  groupSize?: number;
  /** Optimizer steps per training step; whole groups are shared out between them. Default 2. */
  miniBatches?: number;
  /** Of order, sampling and evaluation: a safe integer from 0. Default 0. */
  seed?: number;
  /**
   * The sampling distribution, by default the full softmax at temperature 1. Another temperature from 1e-4 to 1e4 is
   * used for rollout, training, reference and teacher alike. Truncated support is refused, see `checkTrainingSampling`.
   */
  sampling?: Partial<Sampling>;
  /** Rewards to advantages. Default: group mean, divided by the standard deviation. */
  advantage?: AdvantageOptions;
  /** The clipped policy gradient. Default: clip 0.2, token mean. */
  policyTerm?: PolicyTerm;
  /** KL to the frozen initial policy. Default weight 0.001, k3; `false` is off. */
  kl?: KlTerm | false;
  /** The HindSearch term. Default: weight 0.01 (D) if there is a judge; `false` is off. */
  distillation?: DistillationOptions | false;
  /** AdamW; its learning rate is the schedule's. Default: betas 0.9 / 0.999, weight decay 0.01, gradient norm 1. */
  optimizer?: Omit<StepOptions, "learningRate">;
  /** By optimizer steps. Default: 1e-6 after a warm-up over 28.5 % of all steps. */
  learningRate?: LearningRateSchedule;
  /** Retries, deadlines, outages and the share of failed searches that a step survives; evaluations too. */
  search?: SearchFailureOptions;
  /** Tokens that training and scoring run together; no result depends on it beyond rounding. Default: the engine's. */
  microBatchTokens?: number;
  /** Keep one tensor per layer and compute the rest again: less memory, a third more time. Default true. */
  checkpointActivations?: boolean;
  /** Size of the decoder's cache and batch. */
  decoder?: DecoderOptions;
  /** Every so many steps, from the first, the costly health numbers are taken too. They change nothing. Default 10; 0: never. */
  measureEvery?: number;
  /** Default: 8 trajectories, on the CPU bit for bit. */
  startupCheck?: StartupCheckOptions;
  /** Updates in a row that a gradient that is not finite may cost; one more ends the run. Default 3. */
  maxSkippedUpdates?: number;
  /** Default: none. */
  evaluation?: EvaluationOptions;
  /** Folder of the run: settings, metrics, trajectories, checkpoints. Default: nothing is written. */
  runFolder?: string;
  /**
   * Go on with the run in `runFolder` from its latest complete checkpoint, or start it if there is none. Settings that
   * change what is computed must be those of before; `"with-other-settings"` goes on with the new ones from there. Default
   * false.
   */
  resume?: boolean | "with-other-settings";
  /**
   * Checkpoint after every so many steps, after the last, and after an evaluation that was the best. A killed run loses the
   * steps behind its last checkpoint, so with the default, 1, no more than the step in progress; 0: never. One takes the model
   * plus 12 bytes a parameter on disk.
   */
  checkpointEvery?: number;
  /** Newest checkpoints that are kept. Default 2. */
  keepCheckpoints?: number;
  /**
   * One more checkpoint is kept: that with the highest such score in an evaluation, by the first of its modes. Default
   * `exactMatch`, if there is an evaluation; `false`: none.
   */
  keepBest?: BestScore | false;
  /**
   * Where metrics go beside the run folder, e.g. `new TensorBoardSink()`. The training never waits for them but for up to 5
   * seconds at its end; what they did not take is reported as a warning. Default: nowhere.
   */
  sinks?: readonly MetricSink[];
  /**
   * Ends the run behind the step in progress when it fires, with a checkpoint if there is a run folder. To end it at once
   * there is `signal`.
   */
  finish?: AbortSignal;
  /** Hears how the steps go on, outages of the search service included. */
  onProgress?: (progress: TrainingProgress) => void;
  /** Hears what is odd but no error, such as the beginning of an outage. Default: `process.emitWarning`. */
  onWarning?: (warning: string) => void;
}

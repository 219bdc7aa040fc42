import type { EvaluationReport } from "../evaluation/evaluate.js";
import type { CheckpointFolder } from "../runs/checkpoints.js";
import type { RunRecord } from "../runs/log-file.js";
import type { RunDirectory } from "../runs/run.js";
import { partsOf } from "./batch.js";
import type { EvaluationMode } from "./options.js";
import type { TrainingSample } from "./samples.js";
import type {
  DistillationHealth,
  GradientHealth,
  JudgeHealth,
  ReferenceHealth,
  RolloutHealth,
} from "./signal.js";
import { type RecordDetails, trajectoryRecord } from "./trajectory-record.js";
import type { UpdateResult } from "./update.js";

/** Wall-clock milliseconds of the parts of a step. */
export interface StepTimes {
  /** Sampling, searches included; rewards and critiques of what has ended run beside it. */
  rollout: number;
  /** The critiques that were still missing, and the reference, which run together. */
  judgeAndReference: number;
  /** Teacher on the hinted contexts, and the controls of measured steps. */
  teacher: number;
  /** Gradients and optimizer steps. */
  update: number;
  /** All of it. */
  total: number;
}

/** Everything that is logged of a training step. */
export interface StepMetrics {
  /** Training steps done before this one. */
  step: number;
  /** What was sampled. */
  rollout: RolloutHealth;
  /** What the judge did; absent in steps in which it was not asked. */
  judge?: JudgeHealth;
  /** The distillation term; absent likewise. */
  distillation?: DistillationHealth;
  /** Distance from the frozen initial policy; absent where nothing needs its log-probs. */
  reference?: ReferenceHealth;
  /** Gradients of the terms; measured steps only. */
  gradients?: GradientHealth;
  /** Weight of the distillation term in this step. */
  distillationWeight: number;
  /**
   * Largest difference in nats between a log-prob as it was sampled and as the first mini-batch trains it, before any
   * update; 0 on the CPU. `null` if there was nothing to train.
   */
  rolloutGap: number | null;
  /** One per optimizer step. */
  updates: UpdateResult[];
  /** Of its parts. */
  milliseconds: StepTimes;
}

/** An evaluation during training. */
export interface TrainingEvaluation {
  /** Training steps done before it. */
  stepsDone: number;
  /** How it decoded. */
  mode: EvaluationMode;
  /** What came out. */
  report: EvaluationReport;
}

/** What the trainer yields for each step. */
export interface TrainingStepResult {
  /** Training steps done before this one. */
  step: number;
  /** What was logged. */
  metrics: StepMetrics;
  /** The trajectories with rewards, advantages and critiques, by group. */
  groups: TrainingSample[][];
  /** Evaluations around this step: before the first one, and behind any at which one was due. */
  evaluations: TrainingEvaluation[];
  /** The checkpoint that was written behind this step, if one was due. */
  checkpoint?: CheckpointFolder;
}

/** Tokens whose trajectories are made one text: as JSON they take some milliseconds on the event loop. */
const PART_TOKENS = 16_384;

/** Appends a step to the logs of a run, part by part: a large batch as one text would hold up the event loop. */
export async function recordStep(
  run: Pick<RunDirectory, "append">,
  metrics: StepMetrics,
  groups: readonly (readonly TrainingSample[])[],
  details: RecordDetails,
): Promise<void> {
  const { step } = metrics;
  for (const part of partsOf(groups.flat(), PART_TOKENS)) {
    await run.append(
      "trajectories",
      part.map((sample) => trajectoryRecord(sample, step, details)),
    );
  }
  await run.append("metrics", [stepRecord(metrics)]);
}

/** The line of a step in the metrics. */
export function stepRecord(metrics: StepMetrics): RunRecord {
  return { kind: "step", ...metrics };
}

/** The line of an evaluation in the metrics; `step` is the training step that it belongs to. */
export function evaluationRecord(step: number, { stepsDone, mode, report }: TrainingEvaluation): RunRecord {
  return { kind: "evaluation", step, stepsDone, mode, ...report };
}

/** Measures the parts of a step. */
export class Stopwatch {
  readonly #started = performance.now();
  #lap = this.#started;

  /** Milliseconds since the last lap. */
  lap(): number {
    const now = performance.now();
    const milliseconds = now - this.#lap;
    this.#lap = now;
    return milliseconds;
  }

  /** Milliseconds since the start. */
  get total(): number {
    return performance.now() - this.#started;
  }
}

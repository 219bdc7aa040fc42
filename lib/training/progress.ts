import type { OutageProgress } from "../agent/outage.js";

/**
 * What a training run is doing: sampling, waiting for critiques beside scoring by the reference, scoring by the teacher,
 * updating, evaluating.
 */
export type TrainingPhase = "rollout" | "critiques" | "teacher" | "update" | "evaluation";

/** How far a step is. */
export interface TrainingProgress {
  /** Training steps done before this one. */
  step: number;
  /** What is being done. */
  phase: TrainingPhase;
  /** Trajectories, critiques or mini-batches that are done; of the teacher 0 and then all. */
  done: number;
  /** Of how many. */
  total: number;
  /** Searches asked so far; of rollouts and evaluations. */
  searches?: number;
  /** The outage of the search service that is being waited for; absent while there is none. */
  outage?: OutageProgress;
}

import type { SpanKind, Trajectory } from "../../lib/agent/trajectory.js";
import type { TrainingSample } from "../../lib/training/samples.js";
import { trajectoryOf } from "../support/trajectory.js";

/** A failed sample that searched once. */
export function sampleOf(
  trajectory: Partial<Trajectory> = {},
  overrides: Partial<Omit<TrainingSample, "trajectory">> = {},
  kinds: SpanKind[] = ["think", "tag", "search", "search", "tag", "observation", "think"],
): TrainingSample {
  return {
    trajectory: trajectoryOf(kinds, trajectory),
    reward: 0,
    components: {},
    advantage: -0.5,
    failed: true,
    group: "mixed",
    ...overrides,
  };
}

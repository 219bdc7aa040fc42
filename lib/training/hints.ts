import type { TrainingSample } from "./samples.js";

/**
 * What the teacher is told. All but `real` are controls: they tell the effect of the hint from that of the frozen
 * teacher.
 *
 * - `real`: the critique.
 * - `empty`: a hint block without text.
 * - `shuffled`: the critique of another question of the same step.
 */
export type HintControl = "real" | "empty" | "shuffled";

/**
 * The hint of every sample that has a critique, under a control.
 *
 * Shuffling walks half around the list of critiques, which are in the order of their groups, and on to the next one of
 * another question; a sample for which there is none has no hint.
 *
 * @param samples - Of a step, in order.
 * @param control - What to tell the teacher.
 */
export function hintsOf(
  samples: readonly TrainingSample[],
  control: HintControl,
): Map<TrainingSample, string> {
  const critiqued = samples.flatMap((sample) =>
    sample.critique?.status === "ok" ? [{ sample, text: sample.critique.text }] : [],
  );
  const hints = new Map<TrainingSample, string>();
  critiqued.forEach(({ sample, text }, i) => {
    if (control === "real") hints.set(sample, text);
    else if (control === "empty") hints.set(sample, "");
    else {
      const { length } = critiqued;
      const half = Math.floor(length / 2);
      for (let k = 0; k < length; k++) {
        const other = critiqued[(i + half + k) % length];
        if (other === undefined || sameQuestion(other.sample, sample)) continue;
        hints.set(sample, other.text);
        break;
      }
    }
  });
  return hints;
}

function sameQuestion(a: TrainingSample, b: TrainingSample): boolean {
  return a.trajectory.question.question === b.trajectory.question.question;
}

import type { TrainingProgress } from "../training/progress.js";
import type { TrainingEvaluation, TrainingStepResult } from "../training/record.js";
import type { TrainingSample } from "../training/samples.js";
import type { Output } from "./output.js";
import { duration, oneLine, rate, score } from "./text.js";

/** What is counted in a phase. */
const UNITS: Readonly<Record<TrainingProgress["phase"], string>> = {
  rollout: "trajectories",
  critiques: "critiques",
  teacher: "hinted trajectories",
  update: "mini-batches",
  evaluation: "questions",
};

/** Says how a training goes on. */
export class TrainingReport {
  readonly #output: Output;
  readonly #steps: number;
  readonly #started = performance.now();
  #heard = this.#started;
  #phase: { name: string; since: number } | undefined;
  #stepsDone = 0;
  #warned = false;
  #exactMatch = { sum: 0, steps: 0 };
  #best: { score: number; stepsDone: number } | undefined;

  /** @param steps - Of the whole training. */
  constructor(output: Output, steps: number) {
    this.#output = output;
    this.#steps = steps;
  }

  /** A phase goes on. */
  progress({ step, phase, done, total, searches, outage }: TrainingProgress): void {
    const now = performance.now();
    const name = `${step} ${phase}`;
    // It began where the one before ended.
    if (this.#phase?.name !== name) this.#phase = { name, since: this.#heard };
    this.#heard = now;
    const elapsed = now - this.#phase.since;
    this.#output.progress(
      () => {
        const parts = [
          `step ${step + 1} of ${this.#steps}`,
          `${phase} ${done} of ${total} ${UNITS[phase]}, ${rate(done, elapsed)}/s`,
          ...(searches === undefined ? [] : [`${searches} searches`]),
          ...(outage === undefined ? [] : [`${outage.waiting} wait for the search service`]),
          ...(this.#exactMatch.steps === 0 ? [] : [`EM so far ${score(this.#meanExactMatch())}`]),
          ...(this.#stepsDone === 0 ? [] : [`${duration(this.#timeLeft(step))} left`]),
        ];
        return parts.join("  ");
      },
      () => ({
        step,
        phase,
        done,
        total,
        ...(searches !== undefined && { searches }),
        ...(outage && { outage }),
      }),
      done === total,
    );
  }

  /** A step is over. */
  step({ step, metrics, groups, evaluations, checkpoint }: TrainingStepResult): void {
    this.#heard = performance.now();
    this.#stepsDone++;
    const exactMatch = exactMatchOf(groups.flat().map(({ components }) => components.exactMatch));
    if (exactMatch !== null)
      this.#exactMatch = { sum: this.#exactMatch.sum + exactMatch, steps: this.#exactMatch.steps + 1 };
    for (const evaluation of evaluations.filter(({ stepsDone }) => stepsDone <= step))
      this.#evaluation(evaluation);
    const { rollout, milliseconds, judge, updates } = metrics;
    const trained = updates.reduce((sum, { policyTokens }) => sum + policyTokens, 0);
    const left = this.#timeLeft(step + 1);
    const failed = Object.values(judge?.failures ?? {}).reduce((sum, count) => sum + count, 0);
    const judged = judge === undefined ? "" : ` (${judge.calls} critiques, ${failed} failed)`;
    this.#output.line(
      [
        `step ${step + 1} of ${this.#steps}`,
        `EM ${score(exactMatch)}`,
        `reward ${score(rollout.reward)}`,
        `${score(rollout.searches)} searches`,
        `rollout ${duration(milliseconds.rollout)} (${rollout.trajectories} trajectories, ${rate(rollout.trajectories, milliseconds.rollout)}/s)`,
        `judge and reference ${duration(milliseconds.judgeAndReference + milliseconds.teacher)}${judged}`,
        `update ${duration(milliseconds.update)} (${trained} tokens, ${rate(trained, milliseconds.update)}/s)`,
        ...(step + 1 < this.#steps ? [`${duration(left)} left`] : []),
      ].join("  "),
    );
    this.#warnOfJudge(groups.flat(), judge?.calls ?? 0, failed);
    this.#output.event("step", {
      step,
      exactMatch,
      reward: rollout.reward,
      millisecondsLeft: Math.round(left),
      metrics,
    });
    for (const evaluation of evaluations.filter(({ stepsDone }) => stepsDone > step))
      this.#evaluation(evaluation);
    if (checkpoint) {
      this.#output.line(`checkpoint of step ${checkpoint.step}: ${checkpoint.folder}`);
      this.#output.event("checkpoint", checkpoint);
    }
  }

  /** The run is over, or was ended. */
  end(runFolder: string, finished: boolean): void {
    const steps = `${this.#stepsDone} step${this.#stepsDone === 1 ? "" : "s"} in ${duration(performance.now() - this.#started)}`;
    const best = this.#best
      ? `, best evaluation of this process EM ${score(this.#best.score)} after ${this.#best.stepsDone} steps`
      : "";
    this.#output.line(`${finished ? "Done" : "Stopped"}: ${steps}${best}. Run: ${runFolder}`);
    this.#output.event("end", { finished, steps: this.#stepsDone, runFolder, best: this.#best ?? null });
  }

  #evaluation({ stepsDone, mode, report }: TrainingEvaluation): void {
    const { exactMatch, f1, searches, results, milliseconds } = report;
    if (mode === "greedy" && exactMatch > (this.#best?.score ?? -1))
      this.#best = { score: exactMatch, stepsDone };
    this.#output.line(
      `evaluation after ${stepsDone} steps, ${mode}: EM ${score(exactMatch)}, F1 ${score(f1)}, ${score(searches)} searches ` +
        `on ${results.length} questions in ${duration(milliseconds)}`,
    );
    const { results: _, ...summary } = report;
    this.#output.event("evaluation", { stepsDone, mode, ...summary });
  }

  /** Once: a judge that never answers leaves plain GRPO, which nobody asked for. */
  #warnOfJudge(samples: readonly TrainingSample[], calls: number, failed: number): void {
    if (this.#warned || calls === 0 || failed < calls) return;
    this.#warned = true;
    const failures = samples.flatMap(({ critique }) =>
      critique && critique.status !== "ok" ? [critique] : [],
    );
    const [first] = failures;
    this.#output.warn(
      `no critique of this step came: all ${calls} failed, so it was plain GRPO. The first: ${first?.status}, ` +
        `${oneLine(first?.reason ?? "", 300)}`,
    );
  }

  #meanExactMatch(): number {
    return this.#exactMatch.sum / this.#exactMatch.steps;
  }

  /** By the mean time of the steps of this process, evaluations and checkpoints included. */
  #timeLeft(stepsDone: number): number {
    return ((performance.now() - this.#started) / Math.max(1, this.#stepsDone)) * (this.#steps - stepsDone);
  }
}

/** Mean over those that have one; a reward of one's own may have none. */
function exactMatchOf(values: readonly (number | undefined)[]): number | null {
  const scored = values.filter((value) => value !== undefined);
  return scored.length === 0 ? null : scored.reduce((sum, value) => sum + value, 0) / scored.length;
}

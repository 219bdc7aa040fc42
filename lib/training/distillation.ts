import type { BoundProtocol } from "../agent/bound-protocol.js";
import { countPolicyTokens } from "../agent/masks.js";
import type { Policy } from "../policy/policy.js";
import { type GapHealth, gapHealth, ratio } from "./gap.js";
import { type HintControl, hintsOf } from "./hints.js";
import type { TrainingSample } from "./samples.js";
import type { DistillationSettings } from "./settings.js";
import type { DistillationHealth } from "./signal.js";
import { type HintedScores, scoreHinted, type TeacherOptions } from "./teacher.js";

/** The teacher of the distillation term: the frozen initial policy reading hints. */
export class Teacher {
  readonly #policy: Pick<Policy, "score">;
  readonly #protocol: BoundProtocol;
  readonly #settings: DistillationSettings;
  readonly #options: TeacherOptions;

  constructor(
    policy: Pick<Policy, "score">,
    protocol: BoundProtocol,
    settings: DistillationSettings,
    options: TeacherOptions,
  ) {
    this.#policy = policy;
    this.#protocol = protocol;
    this.#settings = settings;
    this.#options = options;
  }

  /**
   * Writes the teacher's log-probs to the samples that have a critique.
   *
   * @returns Samples left out because their hinted context is over the budget.
   */
  async score(samples: readonly TrainingSample[]): Promise<number> {
    const { logProbs, overBudget } = await this.#scores(samples, this.#settings.hintControl);
    for (const [sample, scores] of logProbs) sample.teacherLogProbs = scores;
    return overBudget;
  }

  /**
   * Health of the distillation term.
   *
   * @param samples - Of a step, scored.
   * @param measured - Whether to take the gaps under the controls as well, which takes two more passes.
   */
  async measure(samples: readonly TrainingSample[], measured: boolean): Promise<DistillationHealth> {
    const distilled = samples.flatMap((sample): [TrainingSample, Float32Array][] =>
      sample.teacherLogProbs ? [[sample, sample.teacherLogProbs]] : [],
    );
    const gap = await this.#gap(distilled);
    const written = samples.reduce((sum, { trajectory }) => sum + countPolicyTokens(trajectory), 0);
    const health: DistillationHealth = { tokenShare: ratio(gap.tokens, written), gap };
    if (!measured) return health;
    const [empty, shuffled] = await Promise.all([
      this.#scores(samples, "empty"),
      this.#scores(samples, "shuffled"),
    ]);
    return {
      ...health,
      emptyGap: await this.#gap(empty.logProbs),
      shuffledGap: await this.#gap(shuffled.logProbs),
    };
  }

  #scores(samples: readonly TrainingSample[], control: HintControl): Promise<HintedScores> {
    const { maxTeacherTokens, tokenScope: scope } = this.#settings;
    return scoreHinted(this.#policy, hintsOf(samples, control), this.#protocol, maxTeacherTokens, {
      ...this.#options,
      scope,
    });
  }

  #gap(scores: Iterable<[TrainingSample, Float32Array]>): Promise<GapHealth> {
    return gapHealth(scores, this.#settings.tokenScope, this.#settings.term.clamp);
  }
}

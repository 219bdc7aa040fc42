import type { Critique } from "./critique.js";
import type { JudgeInput } from "./input.js";
import { mentionsAnswer, REPLACEMENT, redactAnswers } from "./leak.js";

/**
 * What happens to a critique that states a gold answer. It is counted in every case.
 *
 * - `keep`: it passes.
 * - `redact`: the words "the answer" stand in place of the answer.
 * - `drop`: there is no critique (status `leaked`).
 * - `ask-again`: the judge is told so and asked once more; if it states the answer again, there is no critique.
 */
export type LeakPolicy = "keep" | "redact" | "drop" | "ask-again";

/** All of them. @internal */
export const LEAK_POLICIES = ["keep", "redact", "drop", "ask-again"] as const satisfies readonly LeakPolicy[];

/** How often critiques stated a gold answer. */
export interface LeakCounts {
  /** Critiques that could be checked: those whose gold answers are known. */
  checked: number;
  /** Those of them that stated one. */
  leaked: number;
  /** `leaked / checked`, 0 if there was none. */
  rate: number;
  /** Of those that were asked for again, how many stated it again. */
  leakedAgain: number;
}

/** By what was done about it. */
export type LeakStats = Partial<Record<LeakPolicy, LeakCounts>>;

/** Counts of several judges together. @internal */
export function addLeaks(all: readonly LeakStats[]): LeakStats {
  const total: LeakStats = {};
  for (const [policy, counts] of all.flatMap(
    (stats) => Object.entries(stats) as [LeakPolicy, LeakCounts][],
  )) {
    const { checked = 0, leaked = 0, leakedAgain = 0 } = total[policy] ?? {};
    total[policy] = withRate({
      checked: checked + counts.checked,
      leaked: leaked + counts.leaked,
      leakedAgain: leakedAgain + counts.leakedAgain,
    });
  }
  return total;
}

function withRate(counts: Omit<LeakCounts, "rate">): LeakCounts {
  return { ...counts, rate: counts.checked === 0 ? 0 : counts.leaked / counts.checked };
}

/** Asks once more for a critique, in place of one that states the answer. */
export type AskAgain = (critique: Extract<Critique, { status: "ok" }>) => Promise<Critique>;

/** Applies a leak policy to critiques and counts. */
export class LeakGuard {
  #checked = 0;
  #leaked = 0;
  #leakedAgain = 0;

  /** @param policy - What happens to a critique that states a gold answer. */
  constructor(readonly policy: LeakPolicy) {}

  /**
   * The critique, or what the policy makes of it. Without known gold answers there is nothing to check.
   *
   * @param askAgain - Under the policy `ask-again`; without it such a critique is dropped.
   */
  async apply(critique: Critique, input: JudgeInput, askAgain?: AskAgain): Promise<Critique> {
    if (critique.status !== "ok" || input.goldAnswers === null) return critique;
    this.#checked++;
    if (!states(critique, input)) return critique;
    this.#leaked++;
    switch (this.policy) {
      case "keep":
        return critique;
      case "redact":
        return redacted(critique, input);
      case "drop":
        return leaked(critique, "the critique states a gold answer");
      case "ask-again":
        return askAgain === undefined
          ? leaked(critique, "the critique states a gold answer, and nobody can be asked again")
          : this.#second(await askAgain(critique), input);
    }
  }

  /** Goes on from counts of before; those of another policy are not this one's. */
  restore(stats: { [policy in LeakPolicy]?: Omit<LeakCounts, "rate"> | undefined }): void {
    const { checked = 0, leaked = 0, leakedAgain = 0 } = stats[this.policy] ?? {};
    this.#checked = checked;
    this.#leaked = leaked;
    this.#leakedAgain = leakedAgain;
  }

  /** The counts so far. */
  stats(): LeakStats {
    const counts = { checked: this.#checked, leaked: this.#leaked, leakedAgain: this.#leakedAgain };
    return { [this.policy]: withRate(counts) };
  }

  #second(critique: Critique, input: JudgeInput): Critique {
    if (critique.status !== "ok" || !states(critique, input)) return critique;
    this.#leakedAgain++;
    return leaked(critique, "the critique states a gold answer, also when asked again");
  }
}

function states(
  { text }: Extract<Critique, { status: "ok" }>,
  { goldAnswers, question }: JudgeInput,
): boolean {
  return mentionsAnswer(text, goldAnswers ?? [], question);
}

function redacted(critique: Extract<Critique, { status: "ok" }>, input: JudgeInput): Critique {
  const text = redactAnswers(critique.text, input.goldAnswers ?? [], input.question);
  // What is left when an answer was all that the critique said is no hint.
  const useless = text.replaceAll(REPLACEMENT, "").trim().length <= 10;
  if (useless) return leaked(critique, "the critique states a gold answer and little else");
  return { ...critique, text };
}

function leaked({ raw }: Critique, reason: string): Critique {
  return { status: "leaked", reason, ...(raw === undefined ? {} : { raw }) };
}
